"""Show the webhook endpoints of all accounts and their deliveries, and resend deliveries."""

from typing import Any

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_accounts, admin_webhooks
from agentchat.administration.admin_webhooks import EndpointSwitch
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.directory_lists import list_account_choices, list_changes, load_account_names
from agentchat.console.shared.rendering import render_page

_STATUSES = ("all", "waiting", "failed", "delivered", "erased")


@get("/webhooks", role=Role.VIEWER, filtered=True)
async def get_webhooks(
    request: AnyRequest, account_id: str | None = None, cursor: str | None = None
) -> Response[Any]:
    """List the endpoints of all accounts or of one."""
    found = await admin_webhooks.page(
        get_admin(request), account_id=account_id or None, after=cursor, limit=50
    )
    return render_page(
        request,
        "webhooks.html",
        title="Webhooks",
        endpoints=found.items,
        names=await load_account_names(request, {each.account_id for each in found.items}),
        choices=await list_account_choices(request),
        account_id=account_id or "",
        next_cursor=found.after,
    )


@get("/webhooks/{endpoint_id:str}", role=Role.VIEWER)
async def get_endpoint(
    request: AnyRequest, endpoint_id: FromPath[str], status: str = "all", cursor: str | None = None
) -> Response[Any]:
    """Show an endpoint with its deliveries, the newest first."""
    return await _render_endpoint(request, endpoint_id, status, cursor)


@post("/webhooks/{endpoint_id:str}/switch", status_code=303, role=Role.OPERATOR)
async def post_switch(request: AnyRequest, endpoint_id: FromPath[str]) -> Redirect:
    """Disable or enable an endpoint."""
    given = await request.form()
    switch = EndpointSwitch(disabled=given.get("disabled") == "true")
    await admin_webhooks.change(get_admin(request), endpoint_id, switch)
    return Redirect(f"/webhooks/{endpoint_id}", status_code=303)


@post("/webhooks/{endpoint_id:str}/deliveries/{delivery_id:str}/resend", status_code=303, role=Role.OPERATOR)
async def post_resend(
    request: AnyRequest, endpoint_id: FromPath[str], delivery_id: FromPath[str]
) -> Redirect:
    """Resend a delivery."""
    await admin_webhooks.resend(get_admin(request), endpoint_id, delivery_id)
    return Redirect(f"/webhooks/{endpoint_id}", status_code=303)


async def _render_endpoint(
    request: AnyRequest, endpoint_id: str, status: str, cursor: str | None
) -> Response[Any]:
    admin = get_admin(request)
    endpoint = await admin_webhooks.get(admin, endpoint_id)
    found = await admin_webhooks.list_deliveries(
        admin,
        endpoint_id,
        status=status if status in _STATUSES[1:] else None,
        after=cursor,
        limit=50,
    )
    return render_page(
        request,
        "webhook.html",
        title="Webhook endpoint",
        endpoint=endpoint,
        account=await admin_accounts.get(admin, endpoint.account_id),
        deliveries=found.items,
        next_cursor=found.after,
        status=status,
        statuses=_STATUSES,
        changes=await list_changes(request, endpoint.id),
    )


HANDLERS = (get_webhooks, get_endpoint, post_switch, post_resend)
