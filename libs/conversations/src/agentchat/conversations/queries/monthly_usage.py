"""Sum the usage of a month, from the sums that the ledger of runs keeps for each day (`runs_table`)."""

import msgspec
from psycopg.rows import class_row

from agentchat.conversations.postgres_sessions import load_statements
from agentchat.runtime.postgres import Pool, acquire_connection

_SQL = load_statements(__file__)


class UsageLine(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the runs of one agent and model that ended on one day (UTC, such as "2026-11-21").

    `tokens` is the sum of the four kinds (`contracts.values.Usage`), as a plan's month counts them. `cost`
    lacks that of the `unpriced` runs, whose tokens had no price.
    """

    account_id: str
    day: str
    agent_id: str
    model: str
    runs: int
    failed: int
    cancelled: int
    rounds: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    tokens: int
    cost: float
    unpriced: int


async def sum_usage_of_month(
    pool: Pool, month: str, account_id: str | None = None, *, with_lines: bool = True
) -> list[UsageLine]:
    """Return the sums of the runs that ended in a month such as "2026-11", of one account or of all.

    Without lines each account has one sum, whose day, agent and model are "". Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn, conn.cursor(row_factory=class_row(UsageLine)) as cursor:
        asked = {"month": month, "account_id": account_id, "with_lines": with_lines}
        await cursor.execute(_SQL["usage_of_month"], asked)
        return await cursor.fetchall()
