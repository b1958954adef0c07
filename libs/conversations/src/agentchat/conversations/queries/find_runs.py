"""Find runs of all accounts in the ledger, as a sorted list."""

from typing import Any, LiteralString

import msgspec
from psycopg import sql

from agentchat.conversations.postgres_sessions import lift_time_limits
from agentchat.conversations.projections.feedback_table import Rating
from agentchat.conversations.queries.sorted_list import (
    ACTIVITY,
    BY_ACTIVITY,
    RowPage,
    SortedList,
    SortKey,
    SortOrder,
)
from agentchat.runtime.postgres import Pool, acquire_connection

_SECONDS = 20.0


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as lists have it. Times are ISO 8601 UTC.

    `is_waiting`: it waits for a decision about a tool call. `tokens` is the sum of the four kinds. `cost` is
    None if a model has no price. `duration_ms` is the time from `started_at` to `ended_at`. `rating` is the
    mean score of its reply's feedback. `last_activity` is its end, or the time of its request while it is
    open. `conversation_id` is None if that is deleted.
    """

    trace_id: str
    conversation_id: str | None
    account_id: str
    user_id: str | None
    agent_id: str | None
    agent_version: int | None
    model: str | None
    form: str | None
    state: str
    is_waiting: bool
    code: str | None
    tokens: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    cost: float | None
    tool_calls: int
    duration_ms: int | None
    first_token_ms: int | None
    rating: float | None
    requested_at: str | None
    started_at: str | None
    ended_at: str | None
    last_activity: str | None


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions on runs; None matches any.

    `since` and `until` bound the last activity: [since, until), ISO 8601 UTC.
    """

    trace_id: str | None = None
    account_id: str | None = None
    account_ids: list[str] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    agent_version: int | None = None
    model: str | None = None
    state: str | None = None
    code: str | None = None
    rating: Rating | None = None
    since: str | None = None
    until: str | None = None
    min_cost: float | None = None
    min_tokens: int | None = None
    min_duration_ms: int | None = None
    is_open: bool | None = None
    is_waiting: bool | None = None

    def build_conditions(self) -> tuple[sql.Composed, dict[str, Any]]:
        """Return the conditions, joined by AND, and their values."""
        values = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        found = [sql.SQL("TRUE"), *(_build_condition(name, value) for name, value in values.items())]
        return sql.SQL(" AND ").join(found), values


def build_state_condition(state: str, runs: LiteralString, parameter: LiteralString) -> LiteralString:
    """Return the SQL that `runs`, an alias, are in a state, the value of `parameter`.

    A state that indexes name in their conditions is spelled out, to imply these.
    """
    match state:
        case "failed":
            return f"{runs}.state = 'failed'"
        case "cancelled":
            return f"{runs}.state = 'cancelled'"
        case "running":
            return f"{runs}.state = 'running' AND {runs}.ended_at IS NULL"
        case _:
            return f"{runs}.state = %({parameter})s"


def _build_condition(name: str, value: object) -> sql.Composable:
    match name, value:
        case "state", str():
            return sql.SQL(build_state_condition(value, "r", "state"))
        case "rating", _:
            return sql.SQL("r.rating < 0" if value == "bad" else "r.rating > 0")
        case _:
            return sql.SQL(_CONDITIONS[name])


async def find_runs(
    pool: Pool,
    wanted: RunFilter,
    *,
    order: SortOrder = BY_ACTIVITY,
    after: str | None = None,
    limit: int,
    counts: bool = False,
) -> RowPage[RunRow]:
    """Find up to `limit` runs, and count all that match if it `counts`.

    `after` is the place of the last one of the page before. Raises ValueError for a text that is no place,
    DatabaseUnavailable.
    """
    conditions, values = wanted.build_conditions()
    async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        page = await RUNS.fetch_page(
            conn, conditions, values, order=order, after=after, limit=limit, counts=counts
        )
    names = RunRow.__struct_fields__
    rows = [RunRow(**dict(zip(names, row, strict=True))) for row in page.rows]
    return RowPage(rows=rows, places=page.places, total=page.total)


_TOKENS = "(r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_creation_tokens)"
_IS_WAITING = """(r.ended_at IS NULL AND EXISTS (
       SELECT FROM approvals WHERE approvals.trace_id = r.trace_id AND approvals.status = 'pending'))"""
_NAMES = ("account_id", "user_id", "agent_id", "model", "form", "state", "code")
_TEXTS = (*_NAMES, "requested_at", "started_at", "ended_at")
_NUMBERS = (
    *("agent_version", "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"),
    *("cost", "tool_calls", "duration_ms", "first_token_ms"),
)
_LAST_ACTIVITY = "coalesce(r.ended_at, r.requested_at)"

RUNS = SortedList(
    table="runs",
    alias="r",
    id="r.trace_id",
    columns=f"""r.trace_id, r.conversation_id, r.account_id, r.user_id, r.agent_id, r.agent_version, r.model,
       r.form, r.state, {_IS_WAITING}, r.code, {_TOKENS}, r.input_tokens, r.output_tokens,
       r.cache_read_tokens, r.cache_creation_tokens, r.cost::float8, r.tool_calls, r.duration_ms,
       r.first_token_ms, r.rating, r.requested_at, r.started_at, r.ended_at, {_LAST_ACTIVITY}""",
    keys={
        ACTIVITY: SortKey(_LAST_ACTIVITY, "text", has_index=True),
        "tokens": SortKey(_TOKENS),
        "rating": SortKey("coalesce(r.rating, -2)::numeric"),
        **{name: SortKey(f"coalesce(r.{name}, '')", "text") for name in _TEXTS},
        **{name: SortKey(f"coalesce(r.{name}, -1)") for name in _NUMBERS},
    },
)
"""The ledger as a list. What a run does not have is less than any value."""

_CONDITIONS = {
    "is_open": "(r.ended_at IS NULL) = %(is_open)s",
    "is_waiting": f"{_IS_WAITING} = %(is_waiting)s",
    **{name: f"r.{name} = %({name})s" for name in ("trace_id", "agent_version", *_NAMES)},
    "account_ids": "r.account_id = ANY (%(account_ids)s)",
    "since": f"{_LAST_ACTIVITY} >= %(since)s",
    "until": f"{_LAST_ACTIVITY} < %(until)s",
    "min_cost": "r.cost >= %(min_cost)s::numeric",
    "min_tokens": f"{_TOKENS} >= %(min_tokens)s",
    "min_duration_ms": "r.duration_ms >= %(min_duration_ms)s",
}
