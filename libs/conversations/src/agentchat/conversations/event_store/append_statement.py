"""Build the one statement that stores all waiting appends.

It calls `append_events` (append_events.sql). One round trip and one commit store them all; the eventsourcing
library's recorder takes five statements for each, half of an orchestrator's time (decision 44).
"""

from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple

from psycopg import sql

from agentchat.contracts.timings import BREAK_SECONDS, LEASE_SECONDS
from agentchat.conversations.event_store.mapper import EventRow

CLOCK_SECONDS = 1.0
"""The most that a worker's estimate of the server's time may be off when a run starts by it."""


class LeaseChange(NamedTuple):
    """The lease of `worker` that an append takes (for `seconds`) or releases (None).

    `sent_at`: the start of the lease by the worker's own clock.
    """

    trace_id: str
    worker: str
    seconds: float | None = None
    sent_at: float = 0.0


class Condition(NamedTuple):
    """A condition of the caller that must hold for a run to start.

    `query` is SQL for a boolean[] made from `width` arrays, with one element for each append.
    """

    query: LiteralString
    width: int


class RunStart(NamedTuple):
    """The start of a run by an append.

    The worker's estimate of the server's time, and the condition's facts.
    """

    at: str
    facts: Sequence[object]


class AppendItem(NamedTuple):
    """One append: its events are stored after `expected` and its lease changed, or neither.

    `account_id` is None if the caller does not know it; then it is that of the conversation's first event.
    """

    conversation_id: str
    expected: int
    stored: Sequence[EventRow]
    account_id: str | None = None
    lease: LeaseChange | None = None
    beginning: RunStart | None = None


def build_statement(condition: Condition | None) -> bytes:
    """Return the append statement, to execute with `build_parameters`."""
    fit = sql.SQL("NULL::boolean[]" if condition is None else condition.query)
    statement = sql.SQL(_STATEMENT).format(
        lease=LEASE_SECONDS, break_=BREAK_SECONDS, clock=CLOCK_SECONDS, fit=fit
    )
    return statement.as_bytes()


def build_parameters(
    items: Sequence[AppendItem], condition: Condition | None, *, waits: bool = True
) -> list[Any]:
    """Return the parameters as arrays: of the items, of the facts for the condition, and of all events.

    Unless it `waits`, an item is left out while another append holds its conversation's lock.
    """
    leases = [item.lease for item in items]
    events = [
        (number, item.expected + place, row)
        for number, item in enumerate(items, start=1)
        for place, row in enumerate(item.stored, start=1)
    ]
    facts: list[list[object]] = []
    if condition is not None:
        none = (None,) * condition.width
        rows = (item.beginning.facts if item.beginning else none for item in items)
        facts = [list(column) for column in zip(*rows, strict=True)]
    return [
        [item.conversation_id for item in items],
        [item.account_id for item in items],
        [item.expected for item in items],
        [lease and lease.trace_id for lease in leases],
        [lease and lease.worker for lease in leases],
        [lease and lease.seconds for lease in leases],
        [item.beginning and item.beginning.at for item in items],
        *facts,
        [number for number, _, _ in events],
        [version for _, version, _ in events],
        [row.topic for _, _, row in events],
        [row.state for _, _, row in events],
        [row.trace_id for _, _, row in events],
        [row.at for _, _, row in events],
        waits,
    ]


_STATEMENT = (
    "SELECT * FROM append_events({lease}, {break_}, {clock},"
    " %b::text[], %b::text[], %b::bigint[], %b::text[], %b::text[], %b::float8[], %b::text[], {fit},"
    " %b::integer[], %b::bigint[], %b::text[], %b::bytea[], %b::text[], %b::text[]::timestamptz[], %b)"
)
