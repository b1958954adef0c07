"""Find and delete the accounts that an administrator wants deleted (`administration.admin_accounts`).

Such an account is disabled and has no agents, so no run begins any more. The projector erases its
conversations, then deletes its row.
"""

from agentchat.runtime.postgres import Pool, acquire_connection


async def list_accounts_to_delete(pool: Pool) -> list[str]:
    """Return the ids of accounts whose deletion was requested. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_LIST)).fetchall()
    return [account_id for (account_id,) in rows]


async def delete_account(pool: Pool, account_id: str) -> None:
    """Delete an account whose deletion was requested, with its keys. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_DELETE, [account_id])


_LIST = "SELECT account_id FROM accounts WHERE deletion_requested_at IS NOT NULL ORDER BY account_id"
_DELETE = "DELETE FROM accounts WHERE account_id = %s AND deletion_requested_at IS NOT NULL"
