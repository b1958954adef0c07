"""Create, rotate and revoke API keys. A key is shown once, when it is created or rotated."""

from collections.abc import Sequence

import psycopg

from agentchat.administration import admin_accounts
from agentchat.administration.admin import Admin
from agentchat.administration.admin_values import Deletion, Page
from agentchat.administration.audit_rows import write
from agentchat.administration.checked_input import parse_id, validate
from agentchat.administration.key_values import IssuedKey, Key, KeyChanges, KeyRotation, NewKey
from agentchat.administration.query_parameters import After, DryRun, Limit
from agentchat.administration.row_pages import fetch_page, find_row, normalize_name
from agentchat.contracts.admin_errors import Conflict, NotFound
from agentchat.contracts.ids import make_id
from agentchat.directory.api_keys import SCOPES, Scope, generate_api_key, get_last4, hash_key
from agentchat.runtime.postgres import Connection


async def create(admin: Admin, account_id: str, new: NewKey) -> IssuedKey:
    """Create an API key; it is shown only in this response. Raises NotFound for the account, Invalid."""
    new = validate(new)
    account_id, key = parse_id("account", account_id), generate_api_key()
    return await add(admin, account_id, key, name=new.name, scopes=new.scopes)


async def add(
    admin: Admin, account_id: str, key: str, *, name: str, scopes: Sequence[Scope] = SCOPES
) -> IssuedKey:
    """Add this key to the account: a new one, or a demo's of an earlier start.

    Raises Invalid, NotFound for the account, Conflict if another row has the same key.
    """
    issued = IssuedKey(
        id=make_id(), key=key, last4=get_last4(key), account_id=account_id, name=normalize_name(name, least=0)
    )
    async with admin.transaction() as conn:
        try:
            await conn.execute(
                "INSERT INTO api_keys (key_id, account_id, name, key_hash, last4, scopes) "
                "VALUES (%s, %s, %s, %s, %s, %s)",
                [issued.id, account_id, issued.name, hash_key(key), issued.last4, list(scopes)],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("account", account_id) from None
        except psycopg.errors.UniqueViolation:
            raise Conflict.from_existing("key", f"...{issued.last4}") from None
        after = {"account_id": account_id, "name": issued.name, "last4": issued.last4, "scopes": scopes}
        await admin.note(conn, "create", "key", issued.id, after=after)
    return issued


async def page(admin: Admin, account_id: str, *, after: After | None = None, limit: Limit = 20) -> Page[Key]:
    """List an account's keys by id, revoked ones too. Raises NotFound."""
    query = f"{_KEY} WHERE account_id = %(account)s AND key_id > %(after)s ORDER BY key_id"
    async with admin.connection() as conn:
        account = await admin_accounts.find_account(conn, account_id)
        return await fetch_page(conn, Key, query, {"account": account.id, "after": after or ""}, limit)


async def get(admin: Admin, key_id: str) -> Key:
    """Get a key. Raises NotFound."""
    async with admin.connection() as conn:
        return await _find_key(conn, key_id)


async def change(admin: Admin, key_id: str, changes: KeyChanges) -> Key:
    """Rename a key, change its scopes, disable or enable it.

    Scopes and `disabled` count from the next request on. Raises NotFound, Invalid, Conflict if it is revoked.
    """
    given = validate(changes).to_dict()
    if "name" in given:
        given["name"] = normalize_name(given["name"], least=0)
    async with admin.transaction() as conn:
        before = await _find_key(conn, key_id, lock=True)
        if "disabled" in given:
            _check_not_revoked(before)
        return await write(conn, admin.actor, "key", before, given)


async def rotate(admin: Admin, key_id: str, rotation: KeyRotation) -> IssuedKey:
    """Replace a key under its id: the old one fails at the next request, or after `overlap_seconds`.

    A key from before the old one fails at once. A disabled key stays disabled. Raises NotFound, Invalid,
    Conflict if it is revoked.
    """
    key, overlap = generate_api_key(), validate(rotation).overlap_seconds
    async with admin.transaction() as conn:
        before = await _find_key(conn, key_id, lock=True)
        _check_not_revoked(before)
        await conn.execute(
            _ROTATE, {"key": hash_key(key), "last4": get_last4(key), "seconds": overlap, "id": before.id}
        )
        rotated = await _find_key(conn, before.id)
        after = {"last4": rotated.last4, "old_key_until": rotated.old_key_until}
        await admin.note(
            conn, "rotate", "key", before.id, name=before.name, before={"last4": before.last4}, after=after
        )
    return IssuedKey(
        id=rotated.id,
        key=key,
        last4=rotated.last4,
        account_id=rotated.account_id,
        name=rotated.name,
        old_key_until=rotated.old_key_until,
    )


async def revoke(admin: Admin, key_id: str, *, dry_run: DryRun = False) -> Deletion:
    """Revoke a key: it fails at the next request, and stays in the list. Raises NotFound."""
    async with admin.transaction() as conn:
        before = await _find_key(conn, key_id, lock=True)
        if not dry_run and before.revoked_at is None:
            await conn.execute("UPDATE api_keys SET revoked_at = now() WHERE key_id = %s", [before.id])
            await admin.note(
                conn, "revoke", "key", before.id, name=before.name, before={"last4": before.last4}
            )
    return Deletion(kind="key", id=before.id, dry_run=dry_run)


async def _find_key(conn: Connection, key_id: str, *, lock: bool = False) -> Key:
    """Find a key, also a revoked one; `lock` locks its row for the transaction. Raises NotFound."""
    key_id = parse_id("key", key_id)
    query = f"{_KEY} WHERE key_id = %s{' FOR UPDATE' if lock else ''}"
    return await find_row(conn, Key, query, [key_id], "key", key_id)


def _check_not_revoked(key: Key) -> None:
    if key.revoked_at is not None:
        raise Conflict("the key is revoked; make a new one")


_KEY = """
SELECT key_id, account_id, name, last4, scopes, disabled_at IS NOT NULL, created_at, last_used_at, rotated_at,
       revoked_at, CASE WHEN revoked_at IS NULL AND old_key_until > now() THEN old_key_until END
  FROM api_keys
"""

_ROTATE = """
UPDATE api_keys
   SET old_key_hash = CASE WHEN %(seconds)s > 0 THEN key_hash END, key_hash = %(key)s, last4 = %(last4)s,
       old_key_until = CASE WHEN %(seconds)s > 0 THEN now() + make_interval(secs => %(seconds)s) END,
       rotated_at = now(), last_used_at = NULL
 WHERE key_id = %(id)s
"""
