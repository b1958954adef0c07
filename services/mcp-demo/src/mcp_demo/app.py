"""The Litestar application: `/api/mcp` and the two health paths."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Litestar, Response, asgi, get
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mcp_demo.endpoint import MAX_BODY_BYTES, Endpoint
from mcp_demo.hosts import Hosts
from mcp_demo.information import information
from mcp_demo.server import build_server
from mcp_demo.shop import open_shop
from mcp_demo.tools import CATEGORIES, TOOLS
from runtime.health import HealthChecks


def build_app(hosts: Hosts, health: HealthChecks) -> Litestar:
    """An application with a shop of its own."""
    manager = StreamableHTTPSessionManager(
        build_server(open_shop(), TOOLS),
        json_response=True,
        stateless=True,
        max_request_body_size=MAX_BODY_BYTES,
    )
    endpoint = Endpoint(manager, hosts, msgspec.json.encode(information(len(TOOLS), CATEGORIES)))

    @asgi("/api/mcp", copy_scope=False)
    async def mcp(scope: Any, receive: Any, send: Any) -> None:
        await endpoint(scope, receive, send)

    @get("/healthz", sync_to_thread=False)
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @get("/readyz")
    async def readyz() -> Response[bytes]:
        status, body = await health.body()
        return Response(body, status_code=status, media_type="application/json")

    @contextlib.asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Litestar([mcp, healthz, readyz], lifespan=[lifespan], openapi_config=None, logging_config=None)
