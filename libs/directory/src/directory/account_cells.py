"""Which accounts no longer live in this cell, and where each is: a part of the table account -> cell.

An account without a row lives where its own row is. One with a row is disabled here, so that a release
which does not know this table refuses its keys too.
"""

from typing import Literal

import msgspec

from directory.keys import hash_key
from runtime.postgres import Connection, Pool, connection

TABLE = """
CREATE TABLE account_cells (
    account_id text PRIMARY KEY REFERENCES accounts ON DELETE CASCADE,
    cell text,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON account_cells TO agentchat_service;
"""
"""`cell` is NULL while the account is moved."""

State = Literal["here", "disabled", "moving", "moved", "unknown"]


class Elsewhere(msgspec.Struct, frozen=True):
    """An account that is served by another cell; `cell` is None while it is moved."""

    account_id: str
    cell: str | None


async def elsewhere(pool: Pool, api_key: str) -> Elsewhere | None:
    """Where the account of a key is, if it has left this cell. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_ELSEWHERE, [hash_key(api_key)])).fetchone()
    return None if row is None else Elsewhere(*row)


async def state_of(conn: Connection, account_id: str) -> State:
    """What an account is to this cell."""
    row = await (await conn.execute(_STATE, [account_id])).fetchone()
    return "unknown" if row is None else msgspec.convert(row[0], State)


async def close(conn: Connection, account_id: str) -> None:
    """Have no request of the account begin here from the commit on. Safe to repeat, as its owner."""
    await conn.execute("UPDATE accounts SET disabled_at = now() WHERE account_id = %s", [account_id])
    await conn.execute("INSERT INTO account_cells (account_id) VALUES (%s)", [account_id])


async def reopen(conn: Connection, account_id: str) -> None:
    """Undo `close`: the account stays here."""
    await conn.execute("DELETE FROM account_cells WHERE account_id = %s", [account_id])
    await conn.execute("UPDATE accounts SET disabled_at = NULL WHERE account_id = %s", [account_id])


async def point_to(conn: Connection, account_id: str, cell: str) -> None:
    """The account has arrived in another cell."""
    await conn.execute(
        "UPDATE account_cells SET cell = %s, since = clock_timestamp() WHERE account_id = %s",
        [cell, account_id],
    )


_ELSEWHERE = """
SELECT account_id, cell FROM api_keys JOIN account_cells USING (account_id)
 WHERE key_hash = %s AND revoked_at IS NULL AND disabled_at IS NULL
"""

_STATE = """
SELECT CASE WHEN c.account_id IS NOT NULL THEN CASE WHEN c.cell IS NULL THEN 'moving' ELSE 'moved' END
            WHEN a.disabled_at IS NOT NULL THEN 'disabled' ELSE 'here' END
  FROM accounts a LEFT JOIN account_cells c USING (account_id) WHERE a.account_id = %s
"""
