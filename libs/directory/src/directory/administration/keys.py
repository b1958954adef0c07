"""API keys: several an account, each shown once."""

import msgspec
import psycopg

from contracts.ids import new_id
from directory.administration.audit import record
from directory.errors import Conflict, NotFound
from directory.keys import hash_key, last4, new_api_key
from runtime.postgres import Connection


class IssuedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key at the one moment when it can be seen."""

    key_id: str
    key: str
    last4: str

    def __repr__(self) -> str:
        """Without the key."""
        return f"IssuedKey(key_id={self.key_id!r}, last4={self.last4!r})"


async def create_key(
    conn: Connection, account_id: str, *, actor: str, name: str = "", key: str | None = None
) -> IssuedKey:
    """A new key for the account. `key` takes over one that exists already, such as a demo's.

    Raises NotFound for the account, Conflict where another row has that very key.
    """
    issued = _issued(new_id(), key or new_api_key())
    async with conn.transaction():
        try:
            await conn.execute(
                "INSERT INTO api_keys (key_id, account_id, name, key_hash, last4) "
                "VALUES (%s, %s, %s, %s, %s)",
                [issued.key_id, account_id, name, hash_key(issued.key), issued.last4],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("account", account_id) from None
        except psycopg.errors.UniqueViolation:
            raise Conflict("key", f"...{issued.last4}") from None
        shown = {"account_id": account_id, "name": name, "last4": issued.last4}
        await record(conn, actor, "create", "key", issued.key_id, after=shown)
    return issued


async def rotate_key(conn: Connection, key_id: str, *, actor: str) -> IssuedKey:
    """A new key under the same id; the old one is dead as this commits. Raises NotFound, if revoked too."""
    issued = _issued(key_id, new_api_key())
    async with conn.transaction():
        cursor = await conn.execute(
            "SELECT last4 FROM api_keys WHERE key_id = %s AND revoked_at IS NULL FOR UPDATE", [key_id]
        )
        row = await cursor.fetchone()
        if row is None:
            raise NotFound("key", key_id)
        await conn.execute(
            "UPDATE api_keys SET key_hash = %s, last4 = %s, rotated_at = now(), last_used_at = NULL "
            "WHERE key_id = %s",
            [hash_key(issued.key), issued.last4, key_id],
        )
        before, after = {"last4": row[0]}, {"last4": issued.last4}
        await record(conn, actor, "rotate", "key", key_id, before=before, after=after)
    return issued


async def revoke_key(conn: Connection, key_id: str, *, actor: str) -> None:
    """End a key for good; revoking it again changes nothing. Raises NotFound."""
    async with conn.transaction():
        cursor = await conn.execute(
            "SELECT last4, revoked_at IS NOT NULL FROM api_keys WHERE key_id = %s FOR UPDATE", [key_id]
        )
        row = await cursor.fetchone()
        if row is None:
            raise NotFound("key", key_id)
        if row[1]:
            return
        await conn.execute("UPDATE api_keys SET revoked_at = now() WHERE key_id = %s", [key_id])
        await record(conn, actor, "revoke", "key", key_id, before={"last4": row[0]})


def _issued(key_id: str, key: str) -> IssuedKey:
    return IssuedKey(key_id=key_id, key=key, last4=last4(key))
