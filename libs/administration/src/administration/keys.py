"""API keys: several an account, each shown once, when it is made or rotated."""

import msgspec

from administration.admin import Admin
from administration.errors import Conflict, NotFound
from administration.reading import bounded, checked, identifier, page_of
from administration.times import utc
from administration.values import Deletion, IssuedKey, Key, KeyChanges, NewKey, Page
from directory import administration as directory
from runtime.postgres import Connection


async def create(admin: Admin, account_id: str, new: NewKey) -> IssuedKey:
    """Raises NotFound for the account, Invalid."""
    account_id, new = identifier("account", account_id), checked(new)
    async with admin.connection() as conn:
        issued = await directory.create_key(conn, account_id, actor=admin.actor, name=new.name)
        made = await _found(conn, issued.key_id)
    return _issued(issued, made)


async def page(admin: Admin, account_id: str, *, after: str | None = None, limit: int = 20) -> Page[Key]:
    """Those of the account, revoked ones too, by id. Raises NotFound for the account."""
    account_id, limit = identifier("account", account_id), bounded(limit)
    async with admin.connection() as conn:
        if await directory.find_account(conn, account_id) is None:
            raise NotFound("account", account_id)
        rows = await directory.list_keys(conn, account_id, after=after or "", limit=limit + 1)
    shown = [_shown(row) for row in rows]
    return page_of(shown, limit, shown[:limit][-1].id if shown else None)


async def get(admin: Admin, key_id: str) -> Key:
    """Raises NotFound."""
    async with admin.connection() as conn:
        return _shown(await _found(conn, identifier("key", key_id)))


async def change(admin: Admin, key_id: str, changes: KeyChanges) -> Key:
    """`disabled` counts from the next request on.

    Raises NotFound, Invalid, Conflict where one that is revoked is to be disabled or enabled.
    """
    key_id, changes = identifier("key", key_id), checked(changes)
    async with admin.transaction() as conn:
        if isinstance(changes.name, str):
            await directory.rename_key(conn, key_id, changes.name, actor=admin.actor)
        if isinstance(changes.disabled, bool):
            await _not_revoked(conn, key_id)
            await directory.set_key_disabled(conn, key_id, changes.disabled, actor=admin.actor)
        return _shown(await _found(conn, key_id))


async def rotate(admin: Admin, key_id: str) -> IssuedKey:
    """A new key under the same id; the old one opens nothing from the next request on.

    That of a disabled one is disabled. Raises NotFound, Conflict where it is revoked.
    """
    key_id = identifier("key", key_id)
    async with admin.transaction() as conn:
        await _not_revoked(conn, key_id)
        issued = await directory.rotate_key(conn, key_id, actor=admin.actor)
        made = await _found(conn, key_id)
    return _issued(issued, made)


async def revoke(admin: Admin, key_id: str, *, dry_run: bool = False) -> Deletion:
    """End a key for good; doing it again changes nothing. Raises NotFound."""
    key_id = identifier("key", key_id)
    async with admin.connection() as conn:
        await _found(conn, key_id)
        if not dry_run:
            await directory.revoke_key(conn, key_id, actor=admin.actor)
    return Deletion(kind="key", id=key_id, dry_run=dry_run)


async def _not_revoked(conn: Connection, key_id: str) -> None:
    """The key's row is held until the transaction ends. Raises Conflict."""
    found = await directory.find_key(conn, key_id, lock=True)
    if found is not None and found.revoked_at is not None:
        raise Conflict("the key is revoked; make a new one")


async def _found(conn: Connection, key_id: str) -> directory.Key:
    found = await directory.find_key(conn, key_id)
    if found is None:
        raise NotFound("key", key_id)
    return found


def _issued(issued: directory.IssuedKey, made: directory.Key) -> IssuedKey:
    return IssuedKey(
        id=issued.key_id, key=issued.key, last4=issued.last4, account_id=made.account_id, name=made.name
    )


def _shown(row: directory.Key) -> Key:
    fields = msgspec.structs.asdict(row)
    times = {name: utc(value) for name, value in fields.items() if name.endswith("_at")}
    return Key(id=fields.pop("key_id"), **fields | times)
