"""How an event is chained to the one before it in its conversation: by Postgres, in the row's own insert.

A link is the SHA-256 of the link before, the event's place and its content. The first link of a chain follows
random bytes, its salt: so no link tells anything of a content that somebody guesses, once the links before it
are erased. What leaves the conversation's rows is the SHA-256 of a link, its seal, and never the link itself.

The column holds the link. Where what it follows stands in no other row, that stands before it: the salt, and
the last link of what was erased.
"""

import hashlib

from contracts import events
from conversations.database import APPEND_LOCK, CONVERSATION_LOCKS
from runtime.roles import SERVICE_ROLE

LINK_BYTES = 32
ERASED = events.tag_of(events.ConversationErased)


# A trigger, so that whoever appends is chained, and nobody names its own link. It sees the rows before in the
# same statement.
# The position is drawn here, under the conversation's lock, whatever the insert says: nobody puts an event
# between those that were read already, or below them (`event_store.settled_position`). An event follows the
# one before it in its conversation, and an erasure follows what it erases. Only an import brings an erasure
# alone, and no service acts as its role. The names are qualified: a temporary table of whoever inserts would
# be found first.
def chain_function(create: str, turn: str) -> str:
    """SQL that creates the trigger's function; `turn` is what it begins with."""
    return f"""
{create} chain_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    previous bytea;
    kept bytea := '';
    follows boolean := NEW.originator_version = 1 AND NEW.topic <> '{ERASED}';
BEGIN
    {turn}
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
"""  # noqa: S608 - our own parts


CONVERSATION_LOCK_STEP = chain_function(
    "CREATE OR REPLACE FUNCTION",
    f"PERFORM pg_advisory_xact_lock({CONVERSATION_LOCKS}, hashtext(NEW.originator_id) & 4095);",
)
"""After 0.9.0, in which positions were drawn under the lock of all appends."""

TABLES = f"""
{chain_function("CREATE FUNCTION", f"PERFORM pg_advisory_xact_lock({APPEND_LOCK});")}
CREATE TRIGGER chain_event BEFORE INSERT ON conversation_events
    FOR EACH ROW EXECUTE FUNCTION chain_event();

CREATE TABLE erased_links (
    conversation_id text NOT NULL,
    positions bigint[] NOT NULL,
    seals bytea[] NOT NULL,
    piece integer NOT NULL DEFAULT 0,
    PRIMARY KEY (conversation_id, piece)
);
GRANT SELECT ON erased_links TO agentchat_service;
"""


def link_of(
    previous: bytes, conversation_id: str, version: int, position: int, topic: str, state: bytes
) -> bytes:
    """The link of an event after the link `previous`, as the trigger has it."""
    place = f"{conversation_id}\n{version}\n{position}\n{topic}\n"
    return hashlib.sha256(previous + place.encode() + state).digest()


def seal_of(link: bytes) -> bytes:
    """What may be kept of a link elsewhere."""
    return hashlib.sha256(link).digest()
