"""API keys: several an account, each shown once."""

from datetime import datetime

import msgspec
import psycopg

from contracts.ids import new_id
from directory.administration.audit import record
from directory.administration.names import one_line
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


class Key(msgspec.Struct, frozen=True):
    """A key as it can be shown at any time. `last_used_at` is of the key since it was rotated."""

    key_id: str
    account_id: str
    name: str
    last4: str
    disabled: bool
    created_at: datetime
    last_used_at: datetime | None
    rotated_at: datetime | None
    revoked_at: datetime | None


async def create_key(
    conn: Connection, account_id: str, *, actor: str, name: str = "", key: str | None = None
) -> IssuedKey:
    """A new key for the account. `key` takes over one that exists already, such as a demo's.

    Raises Invalid, NotFound for the account, Conflict where another row has that very key.
    """
    issued, name = _issued(new_id(), key or new_api_key()), one_line(name, least=0)
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


async def find_key(conn: Connection, key_id: str, *, lock: bool = False) -> Key | None:
    """The key, revoked or not; None where there is none. `lock` holds its row until the transaction ends."""
    cursor = await conn.execute(f"{_KEY} WHERE key_id = %s{' FOR UPDATE' if lock else ''}", [key_id])
    row = await cursor.fetchone()
    return None if row is None else Key(*row)


async def list_keys(conn: Connection, account_id: str, *, after: str = "", limit: int = 100) -> list[Key]:
    """The account's keys whose ids come after `after`, in the order of their ids."""
    cursor = await conn.execute(
        f"{_KEY} WHERE account_id = %s AND key_id > %s ORDER BY key_id LIMIT %s", [account_id, after, limit]
    )
    return [Key(*row) for row in await cursor.fetchall()]


async def rename_key(conn: Connection, key_id: str, name: str, *, actor: str) -> Key:
    """Raises Invalid, NotFound."""
    name = one_line(name, least=0)
    async with conn.transaction():
        before = await find_key(conn, key_id, lock=True)
        if before is None:
            raise NotFound("key", key_id)
        if before.name == name:
            return before
        await conn.execute("UPDATE api_keys SET name = %s WHERE key_id = %s", [name, key_id])
        shown = {"name": before.name}, {"name": name}
        await record(conn, actor, "change", "key", key_id, before=shown[0], after=shown[1])
    return msgspec.structs.replace(before, name=name)


async def set_key_disabled(conn: Connection, key_id: str, disabled: bool, *, actor: str) -> Key:
    """Let a key open nothing, or open again. Raises NotFound, if revoked too."""
    async with conn.transaction():
        before = await find_key(conn, key_id, lock=True)
        if before is None or before.revoked_at is not None:
            raise NotFound("key", key_id)
        if before.disabled == disabled:
            return before
        await conn.execute(
            "UPDATE api_keys SET disabled_at = CASE WHEN %s THEN now() END WHERE key_id = %s",
            [disabled, key_id],
        )
        shown = {"disabled": before.disabled}, {"disabled": disabled}
        action = "disable" if disabled else "enable"
        await record(conn, actor, action, "key", key_id, before=shown[0], after=shown[1])
    return msgspec.structs.replace(before, disabled=disabled)


async def rotate_key(conn: Connection, key_id: str, *, actor: str) -> IssuedKey:
    """A new key under the same id, disabled if the old one was, which is dead as this commits.

    Raises NotFound, if revoked too.
    """
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
        found = await find_key(conn, key_id, lock=True)
        if found is None:
            raise NotFound("key", key_id)
        if found.revoked_at is not None:
            return
        await conn.execute("UPDATE api_keys SET revoked_at = now() WHERE key_id = %s", [key_id])
        await record(conn, actor, "revoke", "key", key_id, before={"last4": found.last4})


def _issued(key_id: str, key: str) -> IssuedKey:
    return IssuedKey(key_id=key_id, key=key, last4=last4(key))


_KEY = """
SELECT key_id, account_id, name, last4, disabled_at IS NOT NULL, created_at, last_used_at, rotated_at,
       revoked_at
  FROM api_keys
"""
