"""How appends that run at the same time get positions, and up to which position a reader misses none.

Appends of different conversations do not wait for each other, and commit in any order. A transaction that
appends takes the locks of its conversations, in the order of the locks; then it registers: it takes a shared
advisory lock whose number is the last position that was drawn; then it draws. All are given up after the
commit can be seen. So whatever an append under way draws is above the number that it has registered, and
`settled_position()` is the least of these and of the last position drawn. No event will come at or below it.

Who reads the log gets the settled position by a statement of its own, and then the page up to it by the next
one, at READ COMMITTED, on the primary. In one statement, or in a snapshot from before, the page would lack
what was committed in between. The settled position may go back: an append may register a number that others
have passed meanwhile. That harms nobody who continues after a position of their own; where the end of the log
is compared, `Log.head` is used.
"""

from conversations.database import APPENDS_UNDER_WAY, CONVERSATION_LOCKS

_SEQUENCE = "public.conversation_events_notification_id_seq"

# The position is drawn here, under the conversation's lock, whatever the insert says: nobody puts an event
# between those that were read already, or below them. An event follows the one before it. The names are
# qualified: a temporary table of whoever inserts would be found first.
_PLACES = f"""
CREATE FUNCTION place_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock({CONVERSATION_LOCKS}, hashtext(NEW.originator_id) & 4095);
    NEW.notification_id := nextval('{_SEQUENCE}');
    IF NEW.originator_version > 1 AND NOT EXISTS (
        SELECT FROM public.conversation_events
         WHERE originator_id = NEW.originator_id AND originator_version = NEW.originator_version - 1
    ) THEN
        RAISE check_violation USING MESSAGE = 'the event follows none of its conversation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER place_event BEFORE INSERT ON conversation_events
    FOR EACH ROW EXECUTE FUNCTION place_event();
"""


# By a trigger before the insert: whoever inserts has registered, and none waits for a lease or for the lock
# of a conversation after it, since that would hold up all readers.
_REGISTER = f"""
CREATE FUNCTION register_append() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(
        {APPENDS_UNDER_WAY}::bigint << 32 | coalesce(pg_sequence_last_value('{_SEQUENCE}'), 0));
    RETURN NULL;
END $$;
CREATE TRIGGER register_append BEFORE INSERT ON conversation_events
    FOR EACH STATEMENT EXECUTE FUNCTION register_append();
"""

_SETTLED = f"""
CREATE FUNCTION settled_position() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    drawn bigint;
    lowest bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = 'the log is followed on the primary: a standby does not know which appends run';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE invalid_transaction_state USING MESSAGE = 'the log is followed at READ COMMITTED';
    END IF;
    drawn := coalesce(pg_sequence_last_value('{_SEQUENCE}'), 0);
    SELECT min((classid::bigint - {APPENDS_UNDER_WAY} << 32) + objid::bigint) INTO lowest FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 1
       AND classid::bigint BETWEEN {APPENDS_UNDER_WAY} AND {APPENDS_UNDER_WAY} + 65535
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(drawn, lowest);
END $$;
REVOKE ALL ON FUNCTION settled_position() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION settled_position() TO agentchat_service;
"""  # noqa: S608 - numbers of locks

TABLES = _PLACES + _REGISTER + _SETTLED
