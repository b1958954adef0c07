"""Report health: this process lives; everything that it needs answers."""

import asyncio
from typing import Literal

import msgspec
from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec

from agentchat.gateway.http.request_context import JsonRequest


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a process that lives."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The readiness of the service; `checks` has `ok` or the problem for each dependency."""

    status: Literal["ok", "unavailable"]
    checks: dict[str, str]


@get("/healthz", operation_id="get_healthz", summary="Tell that the process lives.")
async def get_healthz() -> Health:
    """Return ok while the process lives."""
    return Health()


@get(
    "/readyz",
    operation_id="get_readyz",
    summary="Tell whether all that it needs answers.",
    responses={
        503: ResponseSpec(Readiness, description="A part that it needs is away.", generate_examples=False)
    },
)
async def get_readyz(request: JsonRequest) -> Response[Readiness]:
    """Return 503 if something that is needed does not answer. Optional parts are listed too."""
    services = request.services
    (is_ready, checks), (_, advisory) = await asyncio.gather(
        services.health.check(), services.advisory.check()
    )
    body = Readiness(status="ok" if is_ready else "unavailable", checks={**checks, **advisory})
    return Response(body, status_code=200 if is_ready else 503)


HANDLERS = (get_healthz, get_readyz)
