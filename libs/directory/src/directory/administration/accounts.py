"""Accounts."""

from datetime import datetime

import msgspec
import psycopg
from msgspec import UNSET, UnsetType

from contracts.ids import new_id
from directory.administration.audit import record
from directory.administration.names import one_line
from directory.errors import Conflict, NotFound
from runtime.postgres import Connection


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account as administrators see it."""

    account_id: str
    name: str
    plan: str
    disabled: bool = False
    created_at: datetime


async def create_account(
    conn: Connection, *, name: str, plan: str, actor: str, account_id: str | None = None
) -> Account:
    """A new account on `plan`. Raises Invalid, NotFound (the plan), Conflict where `account_id` is taken."""
    account_id, name = account_id or new_id(), one_line(name)
    async with conn.transaction():
        try:
            cursor = await conn.execute(
                "INSERT INTO accounts (account_id, name, plan) VALUES (%s, %s, %s) RETURNING created_at",
                [account_id, name, plan],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("plan", plan) from None
        except psycopg.errors.UniqueViolation:
            raise Conflict("account", account_id) from None
        row = await cursor.fetchone()
        assert row is not None
        account = Account(account_id=account_id, name=name, plan=plan, created_at=row[0])
        await record(conn, actor, "create", "account", account_id, after=account)
    return account


async def find_account(conn: Connection, account_id: str) -> Account | None:
    """The account, disabled or not; None where there is none."""
    cursor = await conn.execute(f"{_ACCOUNT} WHERE account_id = %s", [account_id])
    row = await cursor.fetchone()
    return None if row is None else _account(row)


async def list_accounts(conn: Connection, *, after: str = "", limit: int = 100) -> list[Account]:
    """The accounts whose ids come after `after`, in the order of their ids."""
    cursor = await conn.execute(
        f"{_ACCOUNT} WHERE account_id > %s ORDER BY account_id LIMIT %s", [after, limit]
    )
    return [_account(row) for row in await cursor.fetchall()]


async def change_account(
    conn: Connection,
    account_id: str,
    *,
    name: str | UnsetType = UNSET,
    plan: str | UnsetType = UNSET,
    actor: str,
) -> Account:
    """Give an account another name or plan; the plan counts from the next request on.

    Raises Invalid, NotFound for the account and for the plan.
    """
    async with conn.transaction():
        before = await lock_account(conn, account_id)
        after = msgspec.structs.replace(
            before,
            name=before.name if name is UNSET else one_line(name),
            plan=before.plan if plan is UNSET else plan,
        )
        if after == before:
            return before
        try:
            await conn.execute(
                "UPDATE accounts SET name = %s, plan = %s WHERE account_id = %s",
                [after.name, after.plan, account_id],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("plan", after.plan) from None
        await record(conn, actor, "change", "account", account_id, before=before, after=after)
    return after


async def set_account_disabled(conn: Connection, account_id: str, disabled: bool, *, actor: str) -> Account:
    """Shut an account's door, or open it again. Raises NotFound."""
    async with conn.transaction():
        before = await lock_account(conn, account_id)
        if before.disabled == disabled:
            return before
        await conn.execute(
            "UPDATE accounts SET disabled_at = CASE WHEN %s THEN now() END WHERE account_id = %s",
            [disabled, account_id],
        )
        after = msgspec.structs.replace(before, disabled=disabled)
        action = "disable" if disabled else "enable"
        await record(conn, actor, action, "account", account_id, before=before, after=after)
    return after


async def delete_account(conn: Connection, account_id: str, *, actor: str) -> None:
    """With its keys, agents and knowledge bases; its conversations are not the directory's. Raises NotFound.

    Large knowledge bases are to be deleted before: here they have the time of one statement.
    """
    async with conn.transaction():
        before = await lock_account(conn, account_id)
        await conn.execute("DELETE FROM accounts WHERE account_id = %s", [account_id])
        await record(conn, actor, "delete", "account", account_id, before=before)


async def lock_account(conn: Connection, account_id: str) -> Account:
    """The account, its row held until the transaction ends: the audit row then tells the change as it was.

    Nothing is added to the account meanwhile. Raises NotFound.
    """
    await conn.execute("SELECT FROM accounts WHERE account_id = %s FOR UPDATE", [account_id])
    account = await find_account(conn, account_id)
    if account is None:
        raise NotFound("account", account_id)
    return account


def _account(row: tuple[str, str, str, bool, datetime]) -> Account:
    account_id, name, plan, disabled, created_at = row
    return Account(account_id=account_id, name=name, plan=plan, disabled=disabled, created_at=created_at)


_ACCOUNT = "SELECT account_id, name, plan, disabled_at IS NOT NULL, created_at FROM accounts"
