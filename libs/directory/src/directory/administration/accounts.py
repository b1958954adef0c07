"""Accounts."""

import msgspec
import psycopg
from msgspec import UNSET, UnsetType

from contracts.ids import new_id
from directory.administration.audit import record
from directory.errors import Conflict, NotFound
from runtime.postgres import Connection


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account as administrators see it."""

    account_id: str
    name: str
    plan: str
    disabled: bool = False


async def create_account(
    conn: Connection, *, name: str, plan: str, actor: str, account_id: str | None = None
) -> Account:
    """A new account on `plan`. Raises NotFound for the plan, Conflict where `account_id` is taken."""
    account = Account(account_id=account_id or new_id(), name=name, plan=plan)
    async with conn.transaction():
        try:
            await conn.execute(
                "INSERT INTO accounts (account_id, name, plan) VALUES (%s, %s, %s)",
                [account.account_id, name, plan],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("plan", plan) from None
        except psycopg.errors.UniqueViolation:
            raise Conflict("account", account.account_id) from None
        await record(conn, actor, "create", "account", account.account_id, after=account)
    return account


async def find_account(conn: Connection, account_id: str) -> Account | None:
    """The account, disabled or not; None where there is none."""
    cursor = await conn.execute(
        "SELECT name, plan, disabled_at IS NOT NULL FROM accounts WHERE account_id = %s", [account_id]
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return Account(account_id=account_id, name=row[0], plan=row[1], disabled=row[2])


async def change_account(
    conn: Connection,
    account_id: str,
    *,
    name: str | UnsetType = UNSET,
    plan: str | UnsetType = UNSET,
    actor: str,
) -> Account:
    """Give an account another name or plan; the plan counts from the next request on. Raises NotFound."""
    async with conn.transaction():
        before = await _locked(conn, account_id)
        after = Account(
            account_id=account_id,
            name=before.name if name is UNSET else name,
            plan=before.plan if plan is UNSET else plan,
            disabled=before.disabled,
        )
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
        before = await _locked(conn, account_id)
        await conn.execute(
            "UPDATE accounts SET disabled_at = CASE WHEN %s THEN coalesce(disabled_at, now()) END "
            "WHERE account_id = %s",
            [disabled, account_id],
        )
        after = msgspec.structs.replace(before, disabled=disabled)
        action = "disable" if disabled else "enable"
        await record(conn, actor, action, "account", account_id, before=before, after=after)
    return after


async def _locked(conn: Connection, account_id: str) -> Account:
    """The account, its row held until the transaction ends: the audit row then tells the change as it was."""
    await conn.execute("SELECT FROM accounts WHERE account_id = %s FOR UPDATE", [account_id])
    account = await find_account(conn, account_id)
    if account is None:
        raise NotFound("account", account_id)
    return account
