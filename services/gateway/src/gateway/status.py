"""Health: whether this process lives, and whether all that it needs answers."""

import asyncio
from typing import Literal

import msgspec
from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example

from gateway.gateway_request import GatewayRequest
from gateway.http.http_responses import JsonAnswer
from gateway.openapi.described import described


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The process lives."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all that is needed answers; `checks` has `ok`, or what is wrong, of each part."""

    status: Literal["ok", "unavailable"]
    checks: dict[str, str]


_READY = Readiness(status="ok", checks={"postgres": "ok", "nats": "ok", "redis": "ok"})
_UNREADY = {"status": "unavailable", "checks": {"postgres": "ok", "nats": "no answer in time"}}


@get(
    "/healthz",
    operation_id="get_healthz",
    summary="Whether the process lives.",
    response_description="It does.",
    tags=["service"],
)
@described(examples={"well": Health()})
async def get_healthz() -> Health:
    return Health()


@get(
    "/readyz",
    operation_id="get_readyz",
    summary="Whether all that it needs answers.",
    response_description="It does.",
    responses={
        503: ResponseSpec(
            Readiness,
            description="A part that it needs is away",
            generate_examples=False,
            examples=[Example(value=_UNREADY)],
        )
    },
    tags=["service"],
)
@described(examples={"well": _READY})
async def get_readyz(request: GatewayRequest) -> JsonAnswer[Readiness]:
    """503 where something that is needed does not answer; the answer has what is not needed as well."""
    health, advisory = request.services.health, request.services.advisory
    (well, checks), (_, also) = await asyncio.gather(health.ready(), advisory.ready())
    body = Readiness(status="ok" if well else "unavailable", checks={**checks, **also})
    return JsonAnswer(body, status_code=200 if well else 503)


HANDLERS = (get_healthz, get_readyz)
