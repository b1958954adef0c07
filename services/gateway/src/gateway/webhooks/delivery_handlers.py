"""Deliveries of an endpoint: what became of each, and what is sent again or to try."""

import asyncio
from typing import Annotated, Any, get_args

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg

from contracts.webhooks import Delivery, DeliveryStatus, EndpointTest, Replay, ReplayBody
from gateway.access.account_bounds import within_reads_at_once
from gateway.gateway_request import GatewayRequest
from gateway.http import query
from gateway.http.paging import NextCursor, PageRequest, next_cursor, paged_by
from gateway.http.problem_responses import invalid
from gateway.http.strict_json import without_body
from gateway.openapi.described import described, parameter
from gateway.webhooks import webhook_examples
from gateway.webhooks.webhook_input import DeliveryId, EndpointId
from runtime.postgres import Pool
from webhooks import deliveries

TEST_SECONDS = 20.0
"""A test's answer is waited for so long: longer than an attempt may take."""

_LOOK_SECONDS = 0.1
_STATUSES = get_args(DeliveryStatus)
_STATUS = parameter("query", "status", "Only those of this status.", enum=_STATUSES)


TestData = Annotated[
    EndpointTest, BodyKwarg(examples=[Example(id="failed", value=EndpointTest(type="run.failed"))])
]
ReplayData = Annotated[ReplayBody, BodyKwarg(examples=[Example(id="range", value=webhook_examples.RANGE)])]


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of deliveries, the newest first."""

    data: tuple[Delivery, ...]
    next_cursor: NextCursor


@get(
    "/{endpoint_id:str}/deliveries",
    operation_id="listWebhookDeliveries",
    summary="List an endpoint's deliveries, the newest first.",
    description="Each with its attempts, of which the last 20 are kept. They are kept for 30 days.",
    response_description="A page of them.",
    dependencies={"paging": paged_by(str)},
    guards=[within_reads_at_once],
)
@described(
    "not_found",
    parameters=[_STATUS],
    examples={"last": DeliveryPage(data=(webhook_examples.DELIVERED,), next_cursor=None)},
)
async def list_of_endpoint(
    request: GatewayRequest, endpoint_id: EndpointId, paging: NamedDependency[PageRequest]
) -> DeliveryPage:
    status: Any = query.parameters(request.exchange, "status").get("status")
    if status is not None and status not in _STATUSES:
        raise invalid("status", f"This must be one of {', '.join(_STATUSES)}.")
    rows, more = await deliveries.page(
        request.services.pool,
        request.auth.account_id,
        endpoint_id,
        status=status,
        before=paging.after,
        limit=paging.limit,
    )
    return DeliveryPage(data=tuple(rows), next_cursor=next_cursor(more))


@get(
    "/{endpoint_id:str}/deliveries/{delivery_id:str}",
    operation_id="getWebhookDelivery",
    summary="Get one delivery.",
    response_description="The delivery.",
)
@described("not_found", examples={"delivered": webhook_examples.DELIVERED})
async def get_one(request: GatewayRequest, endpoint_id: EndpointId, delivery_id: DeliveryId) -> Delivery:
    return await deliveries.get(request.services.pool, request.auth.account_id, endpoint_id, delivery_id)


@post(
    "/{endpoint_id:str}/deliveries/{delivery_id:str}/resend",
    status_code=202,
    operation_id="resendWebhookDelivery",
    summary="Have a delivery sent again, under its own id.",
    response_description="The delivery, which waits to be sent.",
    guards=[without_body],
)
@described("not_found", "conflict", examples={"delivered": webhook_examples.DELIVERED})
async def resend(request: GatewayRequest, endpoint_id: EndpointId, delivery_id: DeliveryId) -> Delivery:
    pool = request.services.pool
    found = await deliveries.get(pool, request.auth.account_id, endpoint_id, delivery_id)
    return await deliveries.resend(pool, request.auth.account_id, found.id)


@post(
    "/deliveries/{delivery_id:str}/resend",
    status_code=202,
    operation_id="resendWebhookDeliveryById",
    summary="The same without the endpoint's id.",
    response_description="The delivery, which waits to be sent.",
    deprecated=True,
    guards=[without_body],
)
@described("not_found", "conflict", examples={"delivered": webhook_examples.DELIVERED})
async def resend_by_id(request: GatewayRequest, delivery_id: DeliveryId) -> Delivery:
    return await deliveries.resend(request.services.pool, request.auth.account_id, delivery_id)


@post(
    "/{endpoint_id:str}/test",
    status_code=200,
    operation_id="testWebhookEndpoint",
    summary="Have an example sent, and get the endpoint's answer.",
    description="Its ids are of nothing that there is. A test that fails is tried again like any other.",
    response_description="The delivery, with its first attempt if that came about within 20 seconds.",
    guards=[within_reads_at_once],
)
@described(*("not_found", "conflict"), examples={"delivered": webhook_examples.DELIVERED})
async def test(request: GatewayRequest, endpoint_id: EndpointId, data: TestData) -> Delivery:
    pool = request.services.pool
    made = await deliveries.test(pool, request.auth.account_id, endpoint_id, data.type)
    return await _attempted(pool, request.auth.account_id, endpoint_id, made)


@post(
    "/{endpoint_id:str}/replay",
    status_code=202,
    operation_id="replayWebhooks",
    summary="Have the events of a range of the log sent again.",
    description="Those of the endpoint's types, under their own ids, next to what happens meanwhile.",
    response_description="The replay has begun.",
)
@described(*("not_found", "conflict"), examples={"begun": webhook_examples.REPLAY})
async def replay(request: GatewayRequest, endpoint_id: EndpointId, data: ReplayData) -> Replay:
    if data.to < data.from_:
        raise invalid("to", "This must not be below `from`.")
    return await deliveries.replay(
        request.services.pool, request.auth.account_id, endpoint_id, data.from_, data.to
    )


async def _attempted(pool: Pool, account_id: str, endpoint_id: str, made: Delivery) -> Delivery:
    """The delivery once it has been tried, or as it is after TEST_SECONDS."""
    end = asyncio.get_running_loop().time() + TEST_SECONDS
    while not made.attempts and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(_LOOK_SECONDS)
        made = await deliveries.get(pool, account_id, endpoint_id, made.id)
    return made


HANDLERS = (list_of_endpoint, get_one, resend, resend_by_id, test, replay)
