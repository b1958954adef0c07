"""How an event is chained to the one before it in its conversation: by Postgres, in the row's own insert.

A link is the SHA-256 of the link before, the event's place and its content. The first link of a chain follows
random bytes, its salt: so no link tells anything of a content that somebody guesses, once the links before it
are erased. What leaves the conversation's rows is the SHA-256 of a link, its seal, and never the link itself.

The column holds the link. Where what it follows stands in no other row, that stands before it: the salt, and
the last link of what was erased.
"""

import hashlib

from contracts import events
from conversations.database import APPEND_LOCK
from runtime.roles import SERVICE_ROLE

LINK_BYTES = 32
ERASED = events.tag_of(events.ConversationErased)

# A trigger, so that whoever appends is chained, and nobody says a link of his own. It sees the rows before in
# the same statement. `erased_links` keeps the seals of what an erasure deletes, so that the head of each day
# on which they were new is still proved; that trigger's name puts it before `erase_earlier_events`.
TABLES = """
ALTER TABLE conversation_events ADD COLUMN hash bytea;

CREATE TABLE erased_links (
    conversation_id text PRIMARY KEY,
    positions bigint[] NOT NULL,
    seals bytea[] NOT NULL
);
GRANT SELECT ON erased_links TO agentchat_service;

CREATE FUNCTION chain_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    previous bytea;
    kept bytea := '';
BEGIN
    IF NEW.originator_version > 1 THEN
        SELECT substr(hash, octet_length(hash) - 31) INTO previous FROM conversation_events
         WHERE originator_id = NEW.originator_id AND originator_version = NEW.originator_version - 1;
    END IF;
    IF previous IS NULL THEN
        previous := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
        kept := previous;
    ELSIF NEW.topic = 'conversation_erased.v1' THEN
        kept := previous;
    END IF;
    NEW.hash := kept || sha256(previous || convert_to(
        NEW.originator_id || E'\\n' || NEW.originator_version || E'\\n' || NEW.notification_id || E'\\n'
        || NEW.topic || E'\\n', 'UTF8') || NEW.state);
    RETURN NEW;
END $$;
CREATE TRIGGER chain_event BEFORE INSERT ON conversation_events
    FOR EACH ROW EXECUTE FUNCTION chain_event();

CREATE FUNCTION chain_keeps_erased_links() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format($sql$
        INSERT INTO %1$I.erased_links (conversation_id, positions, seals)
        SELECT $1, array_agg(notification_id ORDER BY originator_version),
               array_agg(sha256(substr(hash, octet_length(hash) - 31)) ORDER BY originator_version)
          FROM %1$I.conversation_events
         WHERE originator_id = $1 AND originator_version < $2 AND hash IS NOT NULL
        HAVING count(*) > 0
    $sql$, TG_TABLE_SCHEMA)
    USING NEW.originator_id, NEW.originator_version;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION chain_keeps_erased_links() FROM PUBLIC;
CREATE TRIGGER chain_keeps_erased_links AFTER INSERT ON conversation_events
    FOR EACH ROW WHEN (NEW.topic = 'conversation_erased.v1') EXECUTE FUNCTION chain_keeps_erased_links();
"""

# The position is drawn here, under the lock of all appends, whatever the insert says: nobody puts an event
# between those that were read already, or below them. An event follows the one before it in its conversation,
# and an erasure follows what it erases. Only an import brings an erasure alone, and no service acts as its
# role. The names are qualified: a temporary table of whoever inserts would be found first.
DRAWN = f"""
ALTER TABLE conversation_events ALTER COLUMN notification_id DROP DEFAULT;
CREATE OR REPLACE FUNCTION chain_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    previous bytea;
    kept bytea := '';
    follows boolean := NEW.originator_version = 1 AND NEW.topic <> '{ERASED}';
BEGIN
    PERFORM pg_advisory_xact_lock({APPEND_LOCK});
    NEW.notification_id := nextval('public.conversation_events_notification_id_seq');
    IF NEW.originator_version > 1 THEN
        SELECT substr(hash, octet_length(hash) - 31) INTO previous FROM public.conversation_events
         WHERE originator_id = NEW.originator_id AND originator_version = NEW.originator_version - 1;
        follows := FOUND;
    END IF;
    IF NOT follows AND (
        NEW.topic <> '{ERASED}' OR NEW.originator_version < 2 OR NOT pg_has_role('{SERVICE_ROLE}', 'MEMBER')
    ) THEN
        RAISE check_violation USING MESSAGE = 'the event follows none of its conversation';
    END IF;
    IF previous IS NULL THEN
        previous := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
        kept := previous;
    ELSIF NEW.topic = '{ERASED}' THEN
        kept := previous;
    END IF;
    NEW.hash := kept || sha256(previous || convert_to(
        NEW.originator_id || E'\\n' || NEW.originator_version || E'\\n' || NEW.notification_id || E'\\n'
        || NEW.topic || E'\\n', 'UTF8') || NEW.state);
    RETURN NEW;
END $$;
"""  # noqa: S608 - the number of a lock


def link_of(
    previous: bytes, conversation_id: str, version: int, position: int, topic: str, state: bytes
) -> bytes:
    """The link of an event after the link `previous`, as the trigger has it."""
    place = f"{conversation_id}\n{version}\n{position}\n{topic}\n"
    return hashlib.sha256(previous + place.encode() + state).digest()


def seal_of(link: bytes) -> bytes:
    """What may be kept of a link elsewhere."""
    return hashlib.sha256(link).digest()
