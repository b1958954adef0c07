"""Webhooks: the endpoints of all accounts, their deliveries with every attempt, what is sent again."""

from typing import Any

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_accounts, admin_webhooks
from agentchat.administration.admin_webhooks import EndpointSwitch
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import admin_of
from agentchat.console.frame.directory import account_choices, account_names, changes_of
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role

_STATUSES = ("all", "waiting", "failed", "delivered", "erased")


@get("/webhooks", role=Role.VIEWER)
async def get_webhooks(
    request: AnyRequest, account_id: str | None = None, cursor: str | None = None
) -> Response[Any]:
    """The endpoints, of all accounts or of one."""
    found = await admin_webhooks.page(
        admin_of(request), account_id=account_id or None, after=cursor, limit=50
    )
    return page(
        request,
        "webhooks.html",
        title="Webhooks",
        endpoints=found.items,
        names=await account_names(request, {each.account_id for each in found.items}),
        choices=await account_choices(request),
        account_id=account_id or "",
        next_cursor=found.after,
    )


@get("/webhooks/{endpoint_id:str}", role=Role.VIEWER)
async def get_endpoint(
    request: AnyRequest, endpoint_id: FromPath[str], status: str = "all", cursor: str | None = None
) -> Response[Any]:
    """An endpoint with its deliveries, the newest first."""
    return await _endpoint(request, endpoint_id, status, cursor)


@post("/webhooks/{endpoint_id:str}/switch", status_code=303, role=Role.OPERATOR)
async def post_switch(request: AnyRequest, endpoint_id: FromPath[str]) -> Redirect:
    """Disable or enable it."""
    given = await request.form()
    switch = EndpointSwitch(disabled=given.get("disabled") == "true")
    await admin_webhooks.change(admin_of(request), endpoint_id, switch)
    return Redirect(f"/webhooks/{endpoint_id}", status_code=303)


@post("/webhooks/{endpoint_id:str}/deliveries/{delivery_id:str}/resend", status_code=303, role=Role.OPERATOR)
async def post_resend(
    request: AnyRequest, endpoint_id: FromPath[str], delivery_id: FromPath[str]
) -> Redirect:
    await admin_webhooks.resend(admin_of(request), endpoint_id, delivery_id)
    return Redirect(f"/webhooks/{endpoint_id}", status_code=303)


async def _endpoint(request: AnyRequest, endpoint_id: str, status: str, cursor: str | None) -> Response[Any]:
    admin = admin_of(request)
    endpoint = await admin_webhooks.get(admin, endpoint_id)
    found = await admin_webhooks.deliveries(
        admin,
        endpoint_id,
        status=status if status in _STATUSES[1:] else None,
        after=cursor,
        limit=50,
    )
    return page(
        request,
        "webhook.html",
        title="Webhook endpoint",
        endpoint=endpoint,
        account=await admin_accounts.get(admin, endpoint.account_id),
        deliveries=found.items,
        next_cursor=found.after,
        status=status,
        statuses=_STATUSES,
        changes=await changes_of(request, endpoint.id),
    )


HANDLERS = (get_webhooks, get_endpoint, post_switch, post_resend)
