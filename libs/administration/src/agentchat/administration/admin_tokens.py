"""Create, list and revoke named tokens of administrators. A token is shown once, when it is created."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
import psycopg

from agentchat.administration.admin import Admin
from agentchat.administration.admin_accounts import find_account
from agentchat.administration.admin_values import Deletion, Page
from agentchat.administration.checked_input import validate
from agentchat.administration.query_parameters import After, DryRun, Limit
from agentchat.administration.row_pages import fetch_page, find_row
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from agentchat.directory.api_keys import get_last4, hash_key
from agentchat.directory.named_tokens import ENVIRONMENT_ACTOR, ENVIRONMENT_TOKEN, generate_admin_token
from agentchat.runtime.postgres import Connection

TokenName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._@+-]{1,80}$(?!\n)")]
RoleName = Literal["viewer", "approver", "operator", "owner"]
AccountIds = Annotated[list[str], msgspec.Meta(min_length=1, max_length=1000)]


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new token, limited to `account_ids` if they are given. Its `name` is in the audit log."""

    name: TokenName
    role: RoleName
    account_ids: AccountIds | None = None


class NamedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token; without `account_ids` it has all accounts. `last_used_at` is exact to the minute."""

    name: str
    role: RoleName
    account_ids: list[str] | None
    last4: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token at the one moment when it can be seen."""

    name: str
    token: str
    role: RoleName
    account_ids: list[str] | None

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"IssuedToken(name={self.name!r}, role={self.role!r})"


async def create(admin: Admin, new: NewToken) -> IssuedToken:
    """Create a token; it is shown only in this response. Raises Invalid, Conflict if its name was used."""
    new = validate(new)
    if new.name in (ENVIRONMENT_TOKEN, ENVIRONMENT_ACTOR):
        raise Invalid("name", f"must not be {new.name}: that is the token of AGENTCHAT_ADMIN_TOKEN")
    token = generate_admin_token()
    async with admin.transaction() as conn:
        accounts = await _check_accounts(conn, new.account_ids)
        try:
            await conn.execute(
                "INSERT INTO admin_tokens (name, role, account_ids, token_hash, last4) "
                "VALUES (%s, %s, %s, %s, %s)",
                [new.name, new.role, accounts, hash_key(token), get_last4(token)],
            )
        except psycopg.errors.UniqueViolation:
            raise Conflict.from_existing("token", new.name) from None
        await admin.note(conn, "create", "token", new.name, after={"role": new.role, "account_ids": accounts})
    return IssuedToken(name=new.name, token=token, role=new.role, account_ids=accounts)


async def page(admin: Admin, *, after: After | None = None, limit: Limit = 20) -> Page[NamedToken]:
    """List tokens by name, revoked ones too."""
    query = f"{_SHOWN} WHERE name > %(after)s ORDER BY name"
    async with admin.connection() as conn:
        return await fetch_page(conn, NamedToken, query, {"after": after or ""}, limit, by="name")


async def revoke(admin: Admin, name: str, *, dry_run: DryRun = False) -> Deletion:
    """Revoke a token: it and its sessions in the console end at the next request. Raises NotFound."""
    async with admin.transaction() as conn:
        query = f"{_SHOWN} WHERE name = %s FOR UPDATE"
        before = await find_row(conn, NamedToken, query, [name], "token", name[:80])
        if not dry_run and before.revoked_at is None:
            await conn.execute("UPDATE admin_tokens SET revoked_at = now() WHERE name = %s", [name])
            await admin.note(conn, "revoke", "token", name, before={"role": before.role})
    return Deletion(kind="token", id=name, dry_run=dry_run)


async def _check_accounts(conn: Connection, account_ids: list[str] | None) -> list[str] | None:
    if account_ids is None:
        return None
    try:
        return sorted({(await find_account(conn, each)).id for each in account_ids})
    except NotFound as error:
        raise Invalid("account_ids", f"there is no account {error.name}") from None


_SHOWN = """
SELECT name, role, account_ids, last4, created_at, last_used_at, revoked_at FROM admin_tokens"""
