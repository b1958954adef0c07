"""Show an account's end user with the usage of each month, and delete one."""

from typing import Any
from urllib.parse import urlencode

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_accounts, admin_usage, admin_users
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.confirmation import Question, ask, describe_uses
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.table_view import respond_with_csv
from agentchat.contracts.admin_errors import NotFound
from agentchat.conversations.queries.sorted_list import MOST
from agentchat.conversations.queries.user_summaries import MonthOfUser


@get("/accounts/{account_id:str}/user", role=Role.VIEWER)
async def get_user(request: AnyRequest, account_id: FromPath[str], user_id: str = "") -> Response[Any]:
    """Show an end user; one who is deleted meanwhile is gone."""
    admin = get_admin(request)
    account = await admin_accounts.get(admin, account_id)
    try:
        user = await admin_users.get(admin, account_id, user_id)
    except NotFound:
        user = None
    return render_page(
        request,
        "user.html",
        title=f"User {user_id}",
        account=account,
        user_id=user_id,
        user=user,
    )


@get("/accounts/{account_id:str}/users.csv", role=Role.VIEWER)
async def get_users_csv(
    request: AnyRequest, account_id: FromPath[str], month: str | None = None
) -> Response[str]:
    """Download a month's usage of an account by end user, up to `MOST`; one row is of runs without a user."""
    users = await admin_usage.list_users(get_admin(request), account_id, month or None, limit=MOST)
    names = ("user_id", *MonthOfUser.__struct_fields__)
    rows = [[getattr(each, name) for name in names] for each in users]
    return respond_with_csv(f"users-{users[0].month if users else month or ''}", [names, *rows])


@post("/accounts/{account_id:str}/user", status_code=200, role=Role.OWNER)
async def post_user_deletion(request: AnyRequest, account_id: FromPath[str]) -> Response[Any]:
    """Delete an end user, if the id was typed: the projector erases the conversations."""
    given, admin = await request.form(), get_admin(request)
    user_id = str(given.get("user_id", ""))
    address = f"/accounts/{account_id}/user?{urlencode({'user_id': user_id})}"
    going = (await admin_users.delete(admin, account_id, user_id, dry_run=True)).goes
    question = Question(
        title=f"Delete the user {user_id}?",
        text=f"This deletes the user's {describe_uses(going)} with all that was said in them, and the user's "
        "files. It cannot be undone. The account's usage keeps the tokens.",
        button="Delete the user",
        back=address,
        typed=user_id,
    )
    if asked := ask(request, given, question):
        return asked
    await admin_users.delete(admin, account_id, user_id)
    return Redirect(address, status_code=303)


HANDLERS = (get_user, get_users_csv, post_user_deletion)
