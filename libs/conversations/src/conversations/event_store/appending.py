"""The statement that stores what waits to be stored: one call of a function, whatever is in it.

It writes what the eventsourcing library's recorder writes, into its table; a test holds both to the same
rows and errors. How it takes turns with others is in `positions`. One round trip and one commit for all that
waits, where the recorder takes five statements for an append: half of an orchestrator's time went there
(decision 44).
"""

from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple

from eventsourcing.persistence import StoredEvent
from psycopg import sql

from contracts.timings import BREAK_SECONDS, LEASE_SECONDS
from conversations.database import CONVERSATION_LOCKS

CLOCK_SECONDS = 1.0
"""So far may a worker's idea of the server's time be off where a run begins by it."""


class LeaseChange(NamedTuple):
    """The lease that an append takes (for `seconds`) or releases (None), of `worker`.

    `sent_at`: since when it counts by the worker's own clock.
    """

    trace_id: str
    worker: str
    seconds: float | None = None
    sent_at: float = 0.0


class Condition(NamedTuple):
    """What must hold next to the rules of this library for a run to begin, as those know it who own it.

    `query` is SQL for a boolean[] out of `width` arrays: one element each for every append.
    """

    query: LiteralString
    width: int


class Beginning(NamedTuple):
    """For the append that begins a run: the server's time as its worker takes it to be, and the facts that
    the condition is about.
    """

    at: str
    facts: Sequence[object]


class Item(NamedTuple):
    """One append: all of its events are stored after `expected`, and its lease changed, or nothing is."""

    conversation_id: str
    expected: int
    stored: Sequence[StoredEvent]
    lease: LeaseChange | None = None
    beginning: Beginning | None = None


def statement(condition: Condition | None) -> sql.Composed:
    """What to execute with `parameters`; `condition` where a run is to begin by it."""
    fit = sql.SQL("NULL::boolean[]" if condition is None else condition.query)
    return sql.SQL(_STATEMENT).format(lease=LEASE_SECONDS, break_=BREAK_SECONDS, clock=CLOCK_SECONDS, fit=fit)


def parameters(items: Sequence[Item], condition: Condition | None) -> list[Any]:
    """Arrays: of the items, of the facts for the condition, and of all events."""
    leases = [item.lease for item in items]
    events = [event for item in items for event in item.stored]
    facts: list[list[object]] = []
    if condition is not None:
        none = (None,) * condition.width
        rows = (item.beginning.facts if item.beginning else none for item in items)
        facts = [list(column) for column in zip(*rows, strict=True)]
    return [
        [item.conversation_id for item in items],
        [item.expected for item in items],
        [lease and lease.trace_id for lease in leases],
        [lease and lease.worker for lease in leases],
        [lease and lease.seconds for lease in leases],
        [item.beginning and item.beginning.at for item in items],
        *facts,
        [event.originator_id for event in events],
        [event.originator_version for event in events],
        [event.topic for event in events],
        [event.state for event in events],
    ]


_STATEMENT = (
    "SELECT * FROM append_events({lease}, {break_}, {clock},"
    " %b::text[], %b::bigint[], %b::text[], %b::text[], %b::float8[], %b::text[], {fit},"
    " %b::text[], %b::bigint[], %b::text[], %b::bytea[])"
)

STEADY: LiteralString = """EXISTS (
               SELECT FROM availability
                WHERE since <= clock_timestamp() - make_interval(secs => {})
                  AND abs(extract(epoch FROM clock_timestamp() - noted_at)) <= {})"""
"""SQL, formatted with two numbers of seconds: whether Postgres has answered without a break for so long."""

TAKE_EXPIRED: LiteralString = """ON CONFLICT (trace_id) DO UPDATE
           SET attempt = held.attempt + 1, worker = excluded.worker, expires_at = excluded.expires_at
         WHERE held.expires_at <= clock_timestamp()"""
"""SQL after `INSERT INTO run_leases AS held`: a lease that exists is taken once it has expired."""

OTHERS_WAIT: LiteralString = """SELECT FROM waiting_line other
                WHERE other.conversation_id = asked.conversation_id AND other.trace_id <> asked.trace_id
                  AND other.expires_at > clock_timestamp()"""
"""SQL for the places of others in the line of the conversation of `asked`."""

# 4,096 locks: a call may append to hundreds of conversations, and the table of locks has some thousands.
_CONVERSATION_LOCKS = f"""PERFORM pg_advisory_xact_lock({CONVERSATION_LOCKS}, place)
       FROM (SELECT DISTINCT hashtext(id) & 4095 AS place FROM unnest(conversation_ids) AS id ORDER BY 1)
            AS places;"""  # noqa: S608 - the number of locks

# Appends of a conversation take turns by its lock; after it the statement sees every append before. Whether
# a version is taken, by max(): that is the index, whatever the planner knows of the table. Leases and the
# line by the rules above, which `Leases.acquire` and `WaitingLine.is_first` use too. An item that does not
# fit is left out, and its worker finds out why.

FUNCTION = f"""
CREATE FUNCTION append_events(
    steady_seconds float8, break_seconds float8, clock_seconds float8,
    conversation_ids text[], expected bigint[], trace_ids text[], workers text[], lease_seconds float8[],
    known_at text[], fit boolean[],
    owners text[], versions bigint[], topics text[], states bytea[]
) RETURNS TABLE (appended_conversation text, leased_at text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    {_CONVERSATION_LOCKS}
    RETURN QUERY
    WITH asked AS (
        SELECT *
          FROM unnest(conversation_ids, expected, trace_ids, workers, lease_seconds, known_at, fit)
               AS item (conversation_id, version, trace_id, worker, seconds, known_at, fits)
         WHERE version >= (
               SELECT coalesce(max(originator_version), 0) FROM conversation_events
                WHERE originator_id = conversation_id)
    ), leased AS (
        INSERT INTO run_leases AS held (trace_id, attempt, worker, expires_at)
        SELECT trace_id, 1, worker, clock_timestamp() + make_interval(secs => seconds) FROM asked
         WHERE seconds IS NOT NULL AND fits
           AND abs(extract(epoch FROM statement_timestamp() - known_at::timestamptz)) <= clock_seconds
           AND NOT EXISTS (
               {OTHERS_WAIT})
         ORDER BY trace_id
        {TAKE_EXPIRED}
           AND {STEADY.format("steady_seconds", "break_seconds")}
        RETURNING trace_id,
                  to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS leased_at
    ), accepted AS (
        SELECT asked.*, leased_at FROM asked LEFT JOIN leased USING (trace_id)
         WHERE seconds IS NULL OR leased_at IS NOT NULL
    ), stored AS (
        INSERT INTO conversation_events (originator_id, originator_version, topic, state)
        SELECT conversation_id, event.version, topic, state
          FROM unnest(owners, versions, topics, states) WITH ORDINALITY
               AS event (conversation_id, version, topic, state, place)
          JOIN accepted USING (conversation_id)
         ORDER BY place
    ), released AS (
        DELETE FROM run_leases held USING accepted
         WHERE seconds IS NULL AND held.trace_id = accepted.trace_id AND held.worker = accepted.worker
    )
    SELECT conversation_id, leased_at FROM accepted;
END $$;
"""  # noqa: S608 - our own parts
