"""Read what is in progress in all accounts, and how far the read models are."""

from collections.abc import Sequence

import msgspec

from agentchat.conversations.postgres_sessions import LEADER_LOCK, load_statements
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.runtime.postgres import Pool, acquire_connection

_SQL = load_statements(__file__)


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what is in progress.

    `open_runs` have started and not ended, the oldest `oldest_run_seconds` ago. `approvals` are tool calls
    that wait for a decision. `waiting_messages` wait until their conversation is free.
    """

    open_runs: int
    oldest_run_seconds: float
    approvals: int
    waiting_messages: int


class FailedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that failed with one error code, and when the last of them ended (ISO 8601, UTC)."""

    code: str
    runs: int
    last_at: str


class ReadModel(msgspec.Struct, frozen=True, kw_only=True):
    """A read model that has read the log up to `position`; `parked` events were refused."""

    name: str
    position: int
    parked: int


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that started `seconds` ago and has not ended.

    `tool` is a call that has not returned yet, `waits_for` a tool that needs an approval. `model` is None
    before its first attempt.
    """

    trace_id: str
    conversation_id: str
    account_id: str
    agent_id: str
    seconds: float
    model: str | None
    attempts: int
    rounds: int
    tool: str | None
    waits_for: str | None


async def open_runs(
    pool: Pool,
    *,
    account_id: str | None = None,
    account_ids: Sequence[str] | None = None,
    agent_id: str | None = None,
    limit: int,
) -> tuple[int, list[OpenRun]]:
    """Count the open runs of all, of an account, of `account_ids` or of an agent, and list the newest.

    Raises DatabaseUnavailable.
    """
    limited = None if account_ids is None else list(account_ids)
    named = {"account": account_id, "limited": limited, "agent": agent_id, "limit": limit}
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SQL["open_runs"], named)).fetchall()
    found = [OpenRun(**dict(zip(OpenRun.__struct_fields__, row, strict=False))) for row in rows]
    return (rows[0][-1] if rows else 0), found


async def load_activity(pool: Pool) -> Activity:
    """Count what is in progress. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_SQL["under_way"])).fetchone()
    assert row is not None, "SELECT without FROM gives one row"
    return Activity(**dict(zip(Activity.__struct_fields__, row, strict=True)))


async def count_failed_runs(pool: Pool, *, seconds: float) -> list[FailedRuns]:
    """Count the runs that failed in the last `seconds`, by code, the most frequent first.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SQL["failed_runs"], [seconds])).fetchall()
    return [FailedRuns(code=code, runs=runs, last_at=last_at) for code, runs, last_at in rows]


async def list_read_models(pool: Pool) -> list[ReadModel]:
    """List the read models of this program by name. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (
            await conn.execute(_SQL["read_models"], [[each.name for each in PROJECTIONS]])
        ).fetchall()
    return [ReadModel(name=name, position=position, parked=parked) for name, position, parked in rows]


async def find_leading_projector(pool: Pool) -> str | None:
    """Return the name of the projector that leads, None if none does. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        row = await (
            await conn.execute(_SQL["leader"], [LEADER_LOCK >> 32, LEADER_LOCK & 0xFFFFFFFF])
        ).fetchone()
    return row[0] if row else None
