"""Read an account's tokens and cost of this month and its stored bytes."""

import msgspec

from agentchat.conversations.postgres_sessions import lift_time_limits, read_server_time
from agentchat.runtime.postgres import Pool, acquire_connection

_SECONDS = 60.0


class AccountFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens and cost of runs that ended in a month (UTC, "2026-11"), and the stored bytes of JSON."""

    month: str
    month_tokens: int
    month_cost: float = 0.0
    stored_bytes: int


async def load_account_usage(pool: Pool, account_id: str) -> AccountFigures:
    """Sum an account's rows of this month; that takes a second for some 2,000,000 conversations.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        row = await (await conn.execute(_FIGURES, {"account_id": account_id})).fetchone()
    assert row is not None, "an aggregate without GROUP BY gives one row"
    return AccountFigures(month=row[0], month_tokens=row[1], month_cost=row[2], stored_bytes=row[3])


async def load_user_usage(pool: Pool, account_id: str, user_id: str) -> AccountFigures:
    """Sum the tokens and cost of an end user's runs of this month; `stored_bytes` are not counted.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_OF_USER, [account_id, user_id])).fetchone()
    assert row is not None, "an aggregate without GROUP BY gives one row"
    return AccountFigures(month=row[0], month_tokens=row[1], month_cost=row[2], stored_bytes=0)


class DayCost(msgspec.Struct, frozen=True):
    """The cost of the runs of all accounts that ended on a day; that of the `unpriced` is unknown."""

    amount: float
    unpriced: int


async def load_cost_of_today(pool: Pool) -> DayCost:
    """Sum the cost of the current day (UTC). Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_TODAY)).fetchone()
    assert row is not None, "an aggregate without GROUP BY gives one row"
    return DayCost(*row)


async def read_current_month(pool: Pool) -> str:
    """Return the current month by Postgres' clock, in UTC: "2026-11". Raises DatabaseUnavailable."""
    return (await read_server_time(pool))[:7]


# The clock is read once, in a query of its own: else it would be read for each row, and no index used.
_TODAY = """
SELECT coalesce(sum(cost), 0)::float8, coalesce(sum(unpriced), 0)::bigint FROM usage_by_day
 WHERE day = (SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
"""

_OF_USER = """
SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM'),
       coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens), 0)::bigint,
       coalesce(sum(cost), 0)::float8
  FROM runs WHERE account_id = %s AND user_id = %s
   AND ended_at >= (SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM'))
"""

_FIGURES = """
SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM'),
       coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens), 0)::bigint,
       coalesce(sum(cost), 0)::float8,
       (SELECT coalesce(sum(bytes), 0) FROM conversations WHERE account_id = %(account_id)s)::bigint
  FROM usage_by_day
 WHERE account_id = %(account_id)s
   AND day >= (SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM'))
"""
