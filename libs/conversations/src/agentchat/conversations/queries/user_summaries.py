"""Find the end users of an account: their conversations, last activity and tokens, from the read models.

Nobody registers users: one exists while it has a conversation, or runs whose tokens were counted.
"""

from typing import Literal

import msgspec
from psycopg.rows import class_row

from agentchat.contracts.ownership import is_user_id
from agentchat.conversations.postgres_sessions import lift_time_limits, load_statements
from agentchat.conversations.user_deletion_requests import is_user_being_deleted
from agentchat.runtime.postgres import Pool, acquire_connection

_SECONDS = 60.0
_SQL = load_statements(__file__)

UserOrder = Literal["last_active_at", "tokens", "conversations"]


class EndUser(msgspec.Struct, frozen=True, kw_only=True):
    """An end user of an account.

    `conversations` are those that exist, `tokens` and `cost` those of all its runs that have ended, also in
    deleted conversations; `cost` lacks that of the `unpriced` runs, whose tokens had no price.
    """

    user_id: str
    conversations: int
    last_active_at: str
    tokens: int
    cost: float
    unpriced: int


class MonthOfUser(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a user that ended in a month (UTC), their tokens in four kinds and in all, and the cost."""

    month: str
    runs: int
    tokens: int
    input_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    output_tokens: int
    cost: float
    unpriced: int


class UserInMonth(MonthOfUser, frozen=True, kw_only=True):
    """The month of one user of an account; None stands for all runs without a user."""

    user_id: str | None


class UserDetails(EndUser, frozen=True, kw_only=True):
    """An end user with the tokens of each month, the newest first.

    `deleting`: the user's conversations are being erased.
    """

    months: tuple[MonthOfUser, ...]
    deleting: bool


async def list_users(
    pool: Pool,
    account_id: str,
    *,
    order: UserOrder = "last_active_at",
    after: tuple[int, str] | None = None,
    user_id: str | None = None,
    limit: int,
) -> list[tuple[int, EndUser]]:
    """List users by `order`, the greatest first, each with its place in the list; or the one with this id.

    `after` has the place and the id of the last one of the page before. That takes a second for some
    2,000,000 conversations. Raises DatabaseUnavailable.
    """
    place, last = after or (None, None)
    named = {"account": account_id, "user": user_id, "order": order, "place": place, "last": last}
    async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        rows = await (await conn.execute(_SQL["users"], {**named, "limit": limit})).fetchall()
    names = EndUser.__struct_fields__
    return [(row[0], EndUser(**dict(zip(names, row[1:], strict=True)))) for row in rows]


async def find_user(pool: Pool, account_id: str, user_id: str) -> EndUser | None:
    """Find one user; None for one without conversations and runs. Raises DatabaseUnavailable."""
    found = await list_users(pool, account_id, user_id=user_id, limit=1) if is_user_id(user_id) else []
    return found[0][1] if found else None


async def load_user_details(pool: Pool, account_id: str, user_id: str) -> UserDetails | None:
    """Load one user with the months in which runs ended. Raises DatabaseUnavailable."""
    found = await find_user(pool, account_id, user_id)
    if found is None:
        return None
    async with acquire_connection(pool) as conn, conn.cursor(row_factory=class_row(MonthOfUser)) as cursor:
        await cursor.execute(_SQL["months"], {"account": account_id, "user": user_id})
        months = tuple(await cursor.fetchall())
    deleting = await is_user_being_deleted(pool, account_id, user_id)
    return UserDetails(**msgspec.structs.asdict(found), months=months, deleting=deleting)


async def list_users_of_month(pool: Pool, account_id: str, month: str, *, limit: int) -> list[UserInMonth]:
    """List who had runs that ended in a month ("2026-11"), the one with the most tokens first.

    Raises DatabaseUnavailable.
    """
    named = {"account": account_id, "month": month, "limit": limit}
    async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        async with conn.cursor(row_factory=class_row(UserInMonth)) as cursor:
            return await (await cursor.execute(_SQL["users_of_month"], named)).fetchall()


async def list_conversations_of_user(
    pool: Pool, account_id: str, user_id: str, *, after: str = "", limit: int
) -> list[str]:
    """List ids of a user's conversations, unlisted ones too, without erased ones.

    Raises DatabaseUnavailable.
    """
    named = {"account": account_id, "user": user_id, "after": after, "limit": limit}
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SQL["conversations"], named)).fetchall()
    return [conversation_id for (conversation_id,) in rows]
