"""Show an account's end user with the usage of each month, and delete one."""

from typing import Any
from urllib.parse import urlencode

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_accounts, admin_users
from agentchat.console.frame.access import AnyRequest, get_admin
from agentchat.console.frame.console_roles import Role
from agentchat.console.frame.rendering import render_page
from agentchat.console.frame.schema_forms import RefusedForm
from agentchat.contracts.admin_errors import AdminError, Invalid, NotFound


@get("/accounts/{account_id:str}/user", role=Role.VIEWER)
async def get_user(request: AnyRequest, account_id: FromPath[str], user_id: str = "") -> Response[Any]:
    """Show an end user; one who is deleted meanwhile is gone."""
    return await _render_user(request, account_id, user_id)


@post("/accounts/{account_id:str}/user", status_code=200, role=Role.OWNER)
async def post_user_deletion(request: AnyRequest, account_id: FromPath[str]) -> Response[Any]:
    """Delete an end user, if the id was typed: the projector erases the conversations."""
    given = await request.form()
    user_id = str(given.get("user_id", ""))
    try:
        if str(given.get("typed", "")) != user_id:
            raise Invalid("typed", "is not the user's id; nothing was deleted")
        await admin_users.delete(get_admin(request), account_id, user_id)
    except NotFound:
        raise
    except AdminError as error:
        return await _render_user(request, account_id, user_id, RefusedForm(given, error))
    return Redirect(f"/accounts/{account_id}/user?{urlencode({'user_id': user_id})}", status_code=303)


async def _render_user(
    request: AnyRequest, account_id: str, user_id: str, refused: RefusedForm | None = None
) -> Response[Any]:
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
        refused=refused,
    )


HANDLERS = (get_user, post_user_deletion)
