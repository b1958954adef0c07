"""Record which end users an account wants deleted, until the projector has erased all that they had.

The conversations that are not erased are the remaining work (`projector.deletion_step`). At the end the
user's name goes from the ledger of runs, whose tokens stay counted for the account.
"""

import msgspec

from agentchat.runtime.postgres import Pool, acquire_connection

TABLES = """
CREATE TABLE user_deletions (
    account_id text NOT NULL,
    user_id text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account_id, user_id)
);
GRANT SELECT, INSERT, DELETE ON user_deletions TO agentchat_service;
"""


class UserDeletion(msgspec.Struct, frozen=True):
    """An end user who is to be deleted."""

    account_id: str
    user_id: str


async def request_user_deletion(pool: Pool, account_id: str, user_id: str) -> None:
    """Have the projector delete a user; safe to repeat. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_REQUEST, [account_id, user_id])


async def is_user_being_deleted(pool: Pool, account_id: str, user_id: str) -> bool:
    """Return True while a requested deletion is not complete. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return await (await conn.execute(_FIND, [account_id, user_id])).fetchone() is not None


async def list_users_to_delete(pool: Pool) -> list[UserDeletion]:
    """List the deletions that are not complete, the oldest first. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return [UserDeletion(*row) for row in await (await conn.execute(_LIST)).fetchall()]


async def finish_user_deletion(pool: Pool, deletion: UserDeletion) -> None:
    """Remove the user's name from the ledger of runs, and the request. Raises DatabaseUnavailable."""
    values = [deletion.account_id, deletion.user_id]
    async with acquire_connection(pool) as conn, conn.transaction():
        await conn.execute(_FORGET, values)
        await conn.execute(_DELETE, values)


_REQUEST = "INSERT INTO user_deletions (account_id, user_id) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_FIND = "SELECT FROM user_deletions WHERE account_id = %s AND user_id = %s"
_LIST = "SELECT account_id, user_id FROM user_deletions ORDER BY requested_at"
_FORGET = "UPDATE runs SET user_id = NULL WHERE account_id = %s AND user_id = %s"
_DELETE = "DELETE FROM user_deletions WHERE account_id = %s AND user_id = %s"
