"""List, show, export and delete the end users of an account."""

from collections.abc import AsyncIterator

from agentchat.administration import admin_accounts
from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import Deletion, Page
from agentchat.administration.checked_input import parse_number
from agentchat.administration.query_parameters import After, DryRun, Limit, OfUser, OrderOfUsers
from agentchat.administration.row_pages import count_rows
from agentchat.contracts.admin_errors import NotFound, Use
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.user_export import ExportLine, export_user
from agentchat.conversations.queries.user_summaries import (
    EndUser,
    UserDetails,
    find_user,
    list_users,
    load_user_details,
)
from agentchat.conversations.user_deletion_requests import request_user_deletion
from agentchat.files.file_store import has_files


async def page(
    admin: Admin,
    account_id: str,
    *,
    order: OrderOfUsers = "last_active_at",
    after: After | None = None,
    limit: Limit = 20,
) -> Page[EndUser]:
    """List an account's end users, the greatest first. Raises NotFound, Invalid, Unavailable."""
    account = await admin_accounts.get(admin, account_id)
    with translate_errors():
        rows = await list_users(
            admin.pool, account.id, order=order, after=_parse_place(after), limit=count_rows(limit)
        )
    more = f"{rows[limit - 1][0]} {rows[limit - 1][1].user_id}" if len(rows) > limit else None
    return Page(items=tuple(user for _, user in rows[:limit]), after=more)


async def get(admin: Admin, account_id: str, user: OfUser) -> UserDetails:
    """Get an end user, with the tokens of each month. Raises NotFound, Unavailable."""
    account = await admin_accounts.get(admin, account_id)
    with translate_errors():
        found = await load_user_details(admin.pool, account.id, user)
    if found is None:
        raise NotFound("user", user[:100])
    return found


async def export(admin: Admin, account_id: str, user: OfUser) -> AsyncIterator[ExportLine]:
    """Export all that the service has of an end user, as JSON Lines. Raises NotFound, Unavailable.

    The last line is an ExportEnd: without it the export is incomplete. The audit log names only the account.
    """
    account = await admin_accounts.get(admin, account_id)
    found = await _find(admin, account.id, user)
    async with admin.connection() as conn:
        await admin.note(conn, "export", "user", account.id, name=account.name)
    return export_user(Log(admin.pool), admin.pool, account.id, found)


async def delete(admin: Admin, account_id: str, user: OfUser, *, dry_run: DryRun = False) -> Deletion:
    """Delete an end user: the projector erases the conversations; calling this again tells what is left.

    The audit log names only the account. Raises NotFound, Unavailable.
    """
    account = await admin_accounts.get(admin, account_id)
    with translate_errors():
        found = await find_user(admin.pool, account.id, user)
        if found is None and not await has_files(admin.pool, account.id, user):
            raise NotFound("user", user[:100])
    if not dry_run:
        with translate_errors():
            await request_user_deletion(admin.pool, account.id, user)
        async with admin.connection() as conn:
            await admin.note(conn, "delete", "user", account.id, name=account.name)
    goes = (Use("conversations", 0 if found is None else found.conversations),)
    return Deletion(kind="user", id=user, dry_run=dry_run, goes=goes, pending=not dry_run)


async def _find(admin: Admin, account_id: str, user: str) -> EndUser:
    with translate_errors():
        found = await find_user(admin.pool, account_id, user)
    if found is None:
        raise NotFound("user", user[:100])
    return found


def _parse_place(after: str | None) -> tuple[int, str] | None:
    if after is None:
        return None
    place, _, user_id = after.partition(" ")
    number = parse_number(place, "a place that the service has given out", digits=18)
    return number or 0, user_id
