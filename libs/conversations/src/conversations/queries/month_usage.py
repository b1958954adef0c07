"""An account's month of tokens: quickly, for the limiter, and counted again from the log, for a check."""

from collections.abc import Callable

import msgspec
from psycopg import sql

from contracts import events
from conversations.aggregate.run_usage import Tally, spent_of, tally
from conversations.database import EVENTS_TABLE, NOW
from conversations.errors import UnreadableEvent
from conversations.event_store import mapper
from conversations.event_store.log import Log
from runtime.postgres import Connection, Pool, connection

__all__ = [
    "MonthSpent",
    "RunTokens",
    "month_of",
    "projected",
    "recount",
    "settled_time",
    "spent_of",
    "this_month",
]

RECENT_SECONDS = 120
"""An event is in the log so long after its time at the latest: an append is given up after seconds."""

_COUNT_SECONDS = 5.0
_LONG_SECONDS = 60.0
_BATCH = 1000

Progress = Callable[[int, int], None]
"""Called with how many entries of the log were read, and its last position."""


class MonthSpent(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of the runs that ended in `month`, "2026-11" in UTC, as the log has them at one moment.

    `recent` has those among them, by trace_id, that ended after `counted_to` (ISO 8601): of what ended up to
    there nothing will come into the log any more.
    """

    month: str
    tokens: int
    counted_to: str
    recent: dict[str, int]


class RunTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a month's runs, and when they ended, by trace_id."""

    month: str
    runs: dict[str, int]
    ended_at: dict[str, str]

    @property
    def tokens(self) -> int:
        return sum(self.runs.values())

    def counted_to(self, counted_to: str) -> MonthSpent:
        """The same for the limiter; `counted_to` is of before the counting, by `settled_time`."""
        recent = {trace_id: self.runs[trace_id] for trace_id, at in self.ended_at.items() if at > counted_to}
        return MonthSpent(month=self.month, tokens=self.tokens, counted_to=counted_to, recent=recent)


async def month_of(pool: Pool, account_id: str) -> MonthSpent:
    """The current month, by Postgres' clock: the read model, and what the log has behind its position.

    All from one snapshot, so that nothing is missed or counted twice however far the projector is behind.
    Raises DatabaseUnavailable, also where that takes more than 5 s.
    """
    async with connection(pool, seconds=_COUNT_SECONDS) as conn, conn.transaction():
        # The lock comes before the snapshot: what a rebuild's swap brings would be missing in it otherwise.
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        await conn.execute("LOCK TABLE usage IN ACCESS SHARE MODE")
        named = {"account_id": account_id, "recent": RECENT_SECONDS}
        row = await (await conn.execute(_MONTH, named)).fetchone()
        assert row is not None
        position, month, counted_to, before = row
        ended = await _rows(conn, _RECENT, {"account_id": account_id, "since": max(month, counted_to)})
        tail = await _tail(conn, account_id, position, month)
        known = await _rows(conn, _KNOWN, {"trace_ids": list(tail)})
    late = {trace_id: run for trace_id, run in tail.items() if trace_id not in dict(known)}
    recent = dict(ended) | {
        trace_id: run.usage.total for trace_id, run in late.items() if (run.ended_at or "") > counted_to
    }
    older = sum(run.usage.total for trace_id, run in late.items() if trace_id not in recent)
    return MonthSpent(
        month=month, tokens=before + older + sum(recent.values()), counted_to=counted_to, recent=recent
    )


async def this_month(pool: Pool) -> str:
    """The current month by Postgres' clock, in UTC: "2026-11". Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_THIS_MONTH)).fetchone()
    assert row is not None
    return str(row[0])


async def settled_time(pool: Pool) -> str:
    """Up to which time the log is complete now: RECENT_SECONDS ago. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_SETTLED_TIME, {"recent": RECENT_SECONDS})).fetchone()
    assert row is not None
    return str(row[0])


async def projected(pool: Pool, account_id: str, month: str) -> RunTokens:
    """A month's runs as the read model has them. Raises DatabaseUnavailable."""
    async with connection(pool, seconds=_LONG_SECONDS) as conn:
        rows = await _rows(conn, _PROJECTED, {"account_id": account_id, "month": month})
    runs = {trace_id: tokens for trace_id, tokens, _ in rows}
    return RunTokens(month=month, runs=runs, ended_at={trace_id: at for trace_id, _, at in rows})


async def recount(log: Log, account_id: str, month: str, *, on_progress: Progress | None = None) -> RunTokens:
    """A month's runs counted from the whole log alone; reads all of it, a batch at a time.

    Raises DatabaseUnavailable.
    """
    head, position = await log.head(), 0
    tallies: dict[str, Tally] = {}
    while entries := await log.read(position, _BATCH, without=_UNTOLD):
        for entry in entries:
            if entry.topic in _TELLING and entry.account_id == account_id:
                try:
                    tally(tallies, entry.conversation_id, account_id, entry.event)
                except UnreadableEvent:
                    continue  # the projector parks it, and says so
        position = entries[-1].position
        if on_progress is not None:
            on_progress(position, max(head, position))
    ended = _ended_in(tallies, month)
    return RunTokens(
        month=month,
        runs={trace_id: run.usage.total for trace_id, run in ended.items()},
        ended_at={trace_id: run.ended_at or "" for trace_id, run in ended.items()},
    )


def _ended_in(tallies: dict[str, Tally], month: str) -> dict[str, Tally]:
    return {trace_id: run for trace_id, run in tallies.items() if (run.ended_at or "").startswith(month)}


async def _tail(conn: Connection, account_id: str, position: int, month: str) -> dict[str, Tally]:
    """The month's ends that the read model has not taken yet."""
    tallies: dict[str, Tally] = {}
    parameters = {"position": position, "topics": list(_ENDS), "account_id": account_id}
    for conversation_id, topic, state in await _rows(conn, _TAIL, parameters):
        try:
            tally(tallies, conversation_id, account_id, mapper.event_of(topic, bytes(state)))
        except UnreadableEvent:
            continue
    return _ended_in(tallies, month)


async def _rows(conn: Connection, query: sql.Composable | str, parameters: dict[str, object]) -> list[tuple]:  # type: ignore[type-arg]
    cursor = await conn.execute(query, parameters)  # type: ignore[arg-type]
    return await cursor.fetchall()


_ENDS = ("run_completed.v1", "run_failed.v1", "run_cancelled.v1", "conversation_erased.v1")
_TELLING = frozenset(_ENDS)
_UNTOLD = [tag for tag in map(events.tag_of, events.EVENTS) if tag not in _TELLING]

_TOTAL = sql.SQL("input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens")

# Whole seconds, so that no rounding can put a run on both sides of it.
_COMPLETE = sql.SQL(
    "to_char(clock_timestamp() AT TIME ZONE 'UTC' - make_interval(secs => %(recent)s),"
    """ 'YYYY-MM-DD"T"HH24:MI:SS".000000Z"')"""
)
_SETTLED_TIME = sql.SQL("SELECT {}").format(_COMPLETE)

_MONTH = sql.SQL("""
WITH clock AS (SELECT {now} AS now, {complete} AS counted_to)
SELECT coalesce((SELECT position FROM projection_positions WHERE name = 'usage'), 0),
       substr(now, 1, 7), counted_to,
       (SELECT coalesce(sum({total}), 0)::bigint FROM usage
         WHERE account_id = %(account_id)s AND ended_at >= substr(now, 1, 7) AND ended_at <= counted_to)
  FROM clock
""").format(now=NOW, complete=_COMPLETE, total=_TOTAL)

_RECENT = sql.SQL(
    "SELECT trace_id, ({})::bigint FROM usage WHERE account_id = %(account_id)s AND ended_at > %(since)s"
).format(_TOTAL)

_THIS_MONTH = sql.SQL("SELECT substr({}, 1, 7)").format(NOW)

_KNOWN = "SELECT trace_id, 1 FROM usage WHERE trace_id = ANY(%(trace_ids)s) AND ended_at IS NOT NULL"

_PROJECTED = sql.SQL(
    "SELECT trace_id, ({})::bigint, ended_at FROM usage WHERE account_id = %(account_id)s"
    " AND ended_at >= %(month)s AND ended_at < %(month)s::text || '~'"
).format(_TOTAL)

_TAIL = sql.SQL("""
SELECT originator_id, topic, state FROM {table}
 WHERE notification_id > %(position)s AND topic = ANY(%(topics)s) AND account_id = %(account_id)s
 ORDER BY notification_id
""").format(table=sql.Identifier(EVENTS_TABLE))
