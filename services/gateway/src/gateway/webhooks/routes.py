"""The endpoints of an account."""

from typing import Annotated, Any

import msgspec
from litestar import Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg

from contracts.webhooks import (
    EVENT_TYPES,
    WEBHOOKS,
    Endpoint,
    EndpointChanges,
    EventType,
    IssuedEndpoint,
    NewEndpoint,
)
from gateway.access.admission import within_read_rate
from gateway.access.auth import KEY as SECURITY
from gateway.access.auth import has_key
from gateway.gateway_request import GatewayRequest
from gateway.http.paging import NextCursor, PageRequest, next_cursor, paged_by
from gateway.http.query import known_query
from gateway.http.strict_json import without_body
from gateway.openapi.described import described, parameter
from gateway.webhooks import delivery_handlers, webhook_examples
from gateway.webhooks.webhook_input import EndpointId, check_address, sealer_of
from webhooks import endpoints

NewEndpointData = Annotated[NewEndpoint, BodyKwarg(examples=[Example(id="thin", value=webhook_examples.NEW)])]
ChangesData = Annotated[
    EndpointChanges, BodyKwarg(examples=[Example(id="enable", value=EndpointChanges(disabled=False))])
]


class EndpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of endpoints, in the order in which they were made."""

    data: tuple[Endpoint, ...]
    next_cursor: NextCursor


@post(
    "/",
    status_code=201,
    operation_id="createWebhookEndpoint",
    summary="Create an endpoint, which receives what happens from now on.",
    response_description="The endpoint, and its secret, which is shown this once.",
)
@described(*("address_refused", "conflict"), examples={"issued": webhook_examples.ISSUED})
async def create(request: GatewayRequest, data: NewEndpointData) -> IssuedEndpoint:
    await check_address(request, data.url)
    return await endpoints.create(request.services.pool, sealer_of(request), request.auth.account_id, data)


@get(
    "/",
    operation_id="listWebhookEndpoints",
    summary="List the endpoints, in the order in which they were made.",
    response_description="A page of them.",
    dependencies={"paging": paged_by(str)},
)
@described(examples={"last": EndpointPage(data=(webhook_examples.SHOWN,), next_cursor=None)})
async def list_of_account(request: GatewayRequest, paging: NamedDependency[PageRequest]) -> EndpointPage:
    limit = paging.limit
    rows = await endpoints.page(
        request.services.pool, request.auth.account_id, after=paging.after, limit=limit + 1
    )
    more = rows[limit - 1].id if len(rows) > limit else None
    return EndpointPage(data=tuple(rows[:limit]), next_cursor=next_cursor(more))


@get(
    "/{endpoint_id:str}",
    operation_id="getWebhookEndpoint",
    summary="Get one endpoint.",
    response_description="The endpoint.",
)
@described("not_found", examples={"enabled": webhook_examples.SHOWN})
async def get_one(request: GatewayRequest, endpoint_id: EndpointId) -> Endpoint:
    return await endpoints.get(request.services.pool, request.auth.account_id, endpoint_id)


@patch(
    "/{endpoint_id:str}",
    operation_id="updateWebhookEndpoint",
    summary="Change an endpoint; disable or enable it.",
    description="Enabled again, it gets what happened while it was disabled.",
    response_description="The endpoint as it is now.",
)
@described(*("not_found", "address_refused"), examples={"enabled": webhook_examples.SHOWN})
async def update(request: GatewayRequest, endpoint_id: EndpointId, data: ChangesData) -> Endpoint:
    if data.url is not msgspec.UNSET:
        await check_address(request, data.url)
    return await endpoints.change(request.services.pool, request.auth.account_id, endpoint_id, data)


@delete(
    "/{endpoint_id:str}",
    operation_id="deleteWebhookEndpoint",
    summary="Delete an endpoint, with its deliveries.",
    response_description="It is deleted.",
    guards=[without_body],
)
@described("not_found")
async def remove(request: GatewayRequest, endpoint_id: EndpointId) -> None:
    await endpoints.delete(request.services.pool, request.auth.account_id, endpoint_id)


@post(
    "/{endpoint_id:str}/rotate_secret",
    status_code=200,
    operation_id="rotateWebhookSecret",
    summary="Give an endpoint a new secret.",
    description="For a day each delivery is signed with both, so that receivers can be changed meanwhile.",
    response_description="The endpoint, and its new secret, which is shown this once.",
    guards=[without_body],
)
@described("not_found", examples={"issued": webhook_examples.ISSUED})
async def rotate(request: GatewayRequest, endpoint_id: EndpointId) -> IssuedEndpoint:
    return await endpoints.rotate_secret(
        request.services.pool, sealer_of(request), request.auth.account_id, endpoint_id
    )


ROUTER = Router(
    "/v1/webhook_endpoints",
    route_handlers=[create, list_of_account, get_one, update, remove, rotate, *delivery_handlers.HANDLERS],
    guards=[has_key, within_read_rate],
    before_request=known_query,
    security=[SECURITY],
    tags=["webhooks"],
)


_HEADERS = {
    "webhook-id": "The id of the message: the same at each attempt, and each time that it is sent again.",
    "webhook-timestamp": "When this attempt was made, in seconds since 1970.",
    "webhook-signature": "`v1,` and a signature in base64; two, with a space between, for a day after the "
    "secret was rotated.",
}


def webhooks() -> dict[str, Any]:
    """What is sent, by the type of the event (OpenAPI 3.1, `webhooks`)."""
    return {type_: {"post": _sent(type_)} for type_ in EVENT_TYPES}


def _sent(type_: EventType) -> dict[str, Any]:
    kind = WEBHOOKS[type_.partition(".")[0]]
    headers = [parameter("header", name, text, required=True) for name, text in _HEADERS.items()]
    return {
        "summary": kind.__doc__,
        "tags": ["webhooks"],
        "security": [],
        "parameters": headers,
        "requestBody": {"required": True, "content": {"application/json": {"schema": kind}}},
        "responses": {"2XX": {"description": "It was received. Whatever else comes, it is sent again."}},
    }
