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

Release 0.9.0 reads up to the last position, and would miss events. So the step after it takes its lock too:
nothing is faster yet. `FINISH_STEPS` removes that lock when no process of 0.9.0 runs any more (decision 110).
"""

from conversations.database import APPENDS_UNDER_WAY, CONVERSATION_LOCKS
from conversations.event_store.appending import NOTIFY, ONE_LOCK, append_function

_SEQUENCE = "public.conversation_events_notification_id_seq"

# 4,096 locks: a call may append to hundreds of conversations, and the table of locks has some thousands.
_CONVERSATION_LOCKS = f"""PERFORM pg_advisory_xact_lock({CONVERSATION_LOCKS}, place)
       FROM (SELECT DISTINCT hashtext(id) & 4095 AS place FROM unnest(conversation_ids) AS id ORDER BY 1)
            AS places;"""  # noqa: S608 - the number of locks

# The position is drawn here, under the conversation's lock, whatever the insert says: nobody puts an event
# between those that were read already, or below them. An event follows the one before it. The names are
# qualified: a temporary table of whoever inserts would be found first.
PLACES = f"""
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


def _register_function(create: str, turn: str = "") -> str:
    # By a trigger before the insert: whoever inserts has registered, and none waits for a lease or for the
    # lock of a conversation after it, since that would hold up all readers.
    return f"""
{create} register_append() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {turn}
    PERFORM pg_advisory_xact_lock_shared(
        {APPENDS_UNDER_WAY}::bigint << 32 | coalesce(pg_sequence_last_value('{_SEQUENCE}'), 0));
    RETURN NULL;
END $$;
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

_ONE_AT_A_TIME = append_function(
    "CREATE OR REPLACE FUNCTION", turn=f"{ONE_LOCK}\n    {_CONVERSATION_LOCKS}", notify=NOTIFY
) + _register_function("CREATE OR REPLACE FUNCTION", ONE_LOCK)

STEP = f"""
SET LOCAL lock_timeout = '10s';
{_ONE_AT_A_TIME}
CREATE TRIGGER register_append BEFORE INSERT ON conversation_events
    FOR EACH STATEMENT EXECUTE FUNCTION register_append();
{_SETTLED}
SET LOCAL lock_timeout TO DEFAULT;
"""
"""After 0.9.0, whose processes may still run: appends take all of the locks, and notify by themselves."""

FINISH_STEPS = (
    append_function("CREATE OR REPLACE FUNCTION", turn=_CONVERSATION_LOCKS)
    + _register_function("CREATE OR REPLACE FUNCTION"),
)
"""When no process of 0.9.0 runs. An append that has begun by the functions before has registered too."""

# Without the lock on the table an append that began before would end next to one of 0.9.0.
REOPEN = f"""
SET LOCAL lock_timeout = '10s';
LOCK TABLE conversation_events IN SHARE ROW EXCLUSIVE MODE;
{_ONE_AT_A_TIME}
"""
"""Undoes FINISH_STEPS, before a process of 0.9.0 runs again."""
