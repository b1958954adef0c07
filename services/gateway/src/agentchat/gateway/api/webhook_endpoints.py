"""Create, read, change and delete the webhook endpoints of an account."""

from typing import Annotated

import msgspec
from litestar import delete, get, patch, post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, JSONBody, PathParameter

from agentchat.contracts import http
from agentchat.contracts.webhooks import Endpoint, EndpointChanges, IssuedEndpoint, NewEndpoint
from agentchat.gateway.access.checks import may_manage_account
from agentchat.gateway.http.pagination import Cursor, Limit, NextCursor, decode_position, take_first_page
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.net_guard import AddressRefused
from agentchat.webhooks import endpoints
from agentchat.webhooks.endpoints import check_url

EndpointId = Annotated[
    str,
    PathParameter(description="One of the account's endpoints.", schema_extra={"format": "uuid"}),
]
_NEW = {"url": "https://hooks.example.com/agents", "events": ["run.completed", "run.failed"]}
NewEndpointData = Annotated[
    NewEndpoint, BodyKwarg(examples=[Example(summary="An endpoint for runs", value=_NEW)])
]


class EndpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of endpoints, in the order in which they were made."""

    data: tuple[Endpoint, ...]
    next_cursor: NextCursor


@post(
    "/v1/webhook_endpoints",
    status_code=201,
    operation_id="createWebhookEndpoint",
    summary="Create an endpoint, which receives what happens from now on.",
    guards=[may_manage_account],
)
async def create(request: JsonRequest, data: NewEndpointData) -> IssuedEndpoint:
    """Create an endpoint and return its secret, which is shown only now."""
    await check_address(request, data.url)
    pool, account_id = request.services.pool, request.auth.account_id
    return await endpoints.create_endpoint(pool, request.services.get_sealer(), account_id, data)


@get(
    "/v1/webhook_endpoints",
    operation_id="listWebhookEndpoints",
    summary="List the endpoints, in the order in which they were made.",
    guards=[may_manage_account],
)
async def list_of_account(request: JsonRequest, limit: Limit = 20, cursor: Cursor = None) -> EndpointPage:
    """Return a page of endpoints."""
    pool, account_id = request.services.pool, request.auth.account_id
    rows = await endpoints.list_endpoints(
        pool, account_id, after=decode_position(cursor, str), limit=limit + 1
    )
    data, cursor = take_first_page(rows, limit, lambda row: row.id)
    return EndpointPage(data=data, next_cursor=cursor)


@get(
    "/v1/webhook_endpoints/{endpoint_id:str}",
    operation_id="getWebhookEndpoint",
    summary="Get one endpoint.",
    guards=[may_manage_account],
)
async def get_one(request: JsonRequest, endpoint_id: EndpointId) -> Endpoint:
    """Return the endpoint without its secret."""
    return await endpoints.get_endpoint(request.services.pool, request.auth.account_id, endpoint_id)


@patch(
    "/v1/webhook_endpoints/{endpoint_id:str}",
    operation_id="updateWebhookEndpoint",
    summary="Change an endpoint; disable or enable it.",
    guards=[may_manage_account],
)
async def update(request: JsonRequest, endpoint_id: EndpointId, data: JSONBody[EndpointChanges]) -> Endpoint:
    """Change the endpoint. One that is enabled again gets what happened while it was disabled."""
    if data.url is not msgspec.UNSET:
        await check_address(request, data.url)
    return await endpoints.change_endpoint(request.services.pool, request.auth.account_id, endpoint_id, data)


@delete(
    "/v1/webhook_endpoints/{endpoint_id:str}",
    operation_id="deleteWebhookEndpoint",
    summary="Delete an endpoint, with its deliveries.",
    guards=[may_manage_account],
)
async def remove(request: JsonRequest, endpoint_id: EndpointId) -> None:
    """Delete the endpoint and its deliveries."""
    await endpoints.delete_endpoint(request.services.pool, request.auth.account_id, endpoint_id)


@post(
    "/v1/webhook_endpoints/{endpoint_id:str}/rotate_secret",
    status_code=200,
    operation_id="rotateWebhookSecret",
    summary="Give an endpoint a new secret, which is shown this once.",
    guards=[may_manage_account],
)
async def rotate(request: JsonRequest, endpoint_id: EndpointId) -> IssuedEndpoint:
    """Return a new secret.

    For one day each delivery is signed with both secrets, so that you can change receivers.
    """
    pool, account_id = request.services.pool, request.auth.account_id
    return await endpoints.rotate_secret(pool, request.services.get_sealer(), account_id, endpoint_id)


async def check_address(request: JsonRequest, url: str) -> None:
    """Check that the address may be called. Raises Refusal."""
    try:
        await check_url(request.services.webhook_guard, url, request.auth.account_id)
    except AddressRefused as error:
        reason = f"{error}; the operator's AGENTCHAT_WEBHOOK_ALLOW lists exceptions"
        field = http.FieldError(field="url", message=f"This may not be called: {reason}.")
        raise Refusal("address_refused", f"url: {field.message}", fields=[field]) from None


HANDLERS = (create, list_of_account, get_one, update, remove, rotate)
