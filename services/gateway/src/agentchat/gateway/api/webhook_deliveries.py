"""Read, resend and test deliveries of a webhook endpoint."""

import asyncio
from typing import Annotated

import msgspec
from litestar import get, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from agentchat.contracts.webhooks import Delivery, DeliveryStatus, EndpointTest
from agentchat.gateway.access.checks import may_manage_account, may_read_account
from agentchat.gateway.api.webhook_endpoints import EndpointId
from agentchat.gateway.http.pagination import Cursor, Limit, NextCursor, decode_position, encode_next_cursor
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.webhooks import deliveries

TEST_SECONDS = 20.0
"""How long a test's answer is awaited: longer than an attempt may take."""

_LOOK_SECONDS = 0.1


DeliveryId = Annotated[
    str,
    PathParameter(
        description="The `webhook-id` of a delivery, such as msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9."
    ),
]


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of deliveries, the newest first."""

    data: tuple[Delivery, ...]
    next_cursor: NextCursor


@get(
    "/v1/webhook_endpoints/{endpoint_id:str}/deliveries",
    operation_id="listWebhookDeliveries",
    summary="List an endpoint's deliveries, the newest first.",
    guards=[may_read_account],
)
async def list_of_endpoint(
    request: JsonRequest,
    endpoint_id: EndpointId,
    limit: Limit = 20,
    cursor: Cursor = None,
    status: Annotated[DeliveryStatus | None, QueryParameter(description="Only those of this status.")] = None,
) -> DeliveryPage:
    """Return a page of deliveries with their last 20 attempts. Deliveries are kept for 31 days."""
    pool, before = request.services.pool, decode_position(cursor, str)
    rows, more = await deliveries.list_deliveries(
        pool, request.auth.account_id, endpoint_id, status=status, before=before, limit=limit
    )
    return DeliveryPage(data=tuple(rows), next_cursor=encode_next_cursor(more))


@get(
    "/v1/webhook_endpoints/{endpoint_id:str}/deliveries/{delivery_id:str}",
    operation_id="getWebhookDelivery",
    summary="Get one delivery.",
    guards=[may_manage_account],
)
async def get_one(request: JsonRequest, endpoint_id: EndpointId, delivery_id: DeliveryId) -> Delivery:
    """Return the delivery with its attempts."""
    return await deliveries.get_delivery(
        request.services.pool, request.auth.account_id, endpoint_id, delivery_id
    )


@post(
    "/v1/webhook_endpoints/{endpoint_id:str}/deliveries/{delivery_id:str}/resend",
    status_code=202,
    operation_id="resendWebhookDelivery",
    summary="Send a delivery again, under its own id.",
    guards=[may_manage_account],
)
async def resend(request: JsonRequest, endpoint_id: EndpointId, delivery_id: DeliveryId) -> Delivery:
    """Queue the delivery again, under its own id."""
    pool, account_id = request.services.pool, request.auth.account_id
    found = await deliveries.get_delivery(pool, account_id, endpoint_id, delivery_id)
    return await deliveries.resend_delivery(pool, account_id, found.id)


@post(
    "/v1/webhook_endpoints/{endpoint_id:str}/test",
    status_code=200,
    operation_id="testWebhookEndpoint",
    summary="Send an example, and get the endpoint's answer.",
    guards=[may_manage_account],
)
async def test(request: JsonRequest, endpoint_id: EndpointId, data: JSONBody[EndpointTest]) -> Delivery:
    """Send an example event and return the delivery, with its first attempt if made within 20 seconds.

    The ids in the example belong to nothing. A test that fails is retried like any other delivery.
    """
    pool, account_id, loop = request.services.pool, request.auth.account_id, asyncio.get_running_loop()
    delivery = await deliveries.send_test(pool, account_id, endpoint_id, data.type)
    end = loop.time() + TEST_SECONDS
    while not delivery.attempts and loop.time() < end:
        await asyncio.sleep(_LOOK_SECONDS)
        delivery = await deliveries.get_delivery(pool, account_id, endpoint_id, delivery.id)
    return delivery


HANDLERS = (list_of_endpoint, get_one, resend, test)
