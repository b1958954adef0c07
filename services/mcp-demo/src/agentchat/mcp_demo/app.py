"""Build the Litestar application. The MCP SDK handles `POST /api/mcp`."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
from litestar import Litestar, asgi, get
from litestar import Response as LitestarResponse
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response

from agentchat.mcp_demo.server import build_server
from agentchat.mcp_demo.server_information import build_information
from agentchat.mcp_demo.shop import open_shop
from agentchat.runtime.health_and_metrics import HealthChecks

MAX_BODY_BYTES = 1024 * 1024
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


async def build_app(security: TransportSecuritySettings, health: HealthChecks) -> Litestar:
    """Build the application for one process, with a shop of its own."""
    server = build_server(open_shop())
    server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        transport_security=security,
        max_request_body_size=MAX_BODY_BYTES,
    )
    manager = server.session_manager
    guard = TransportSecurityMiddleware(security)
    body = msgspec.json.encode(build_information(len(await server.list_tools())))

    @asgi("/api/mcp", copy_scope=False)
    async def mcp(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            await manager.handle_request(scope, receive, send)
        else:
            response = await guard.validate_request(request) or _describe(request, body)
            await response(scope, receive, send)

    @get("/healthz", sync_to_thread=False)
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @get("/readyz")
    async def readyz() -> LitestarResponse[bytes]:
        status, checks = await health.respond()
        return LitestarResponse(checks, status_code=status, media_type="application/json")

    @contextlib.asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Litestar([mcp, healthz, readyz], lifespan=[lifespan], openapi_config=None, logging_config=None)


def build_security_settings(bound: str, names: Iterable[str]) -> TransportSecuritySettings:
    """Accept loopback names, the address `bound` to, and `names` in Host and Origin headers.

    A name without a port is accepted with every port. A page of another site can make a browser send requests
    to a loopback address (DNS rebinding), but cannot choose the Host and Origin that the browser sends.
    """
    known = [*LOOPBACK, *names]
    if bound not in ("0.0.0.0", "::"):  # noqa: S104 - compared with, not bound to
        known.append(f"[{bound}]" if ":" in bound else bound)
    hosts = [host for name in known for host in ([name] if _has_port(name) else [name, f"{name}:*"])]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _has_port(name: str) -> bool:
    return ":" in name and not name.endswith("]")


def _describe(request: Request, body: bytes) -> Response:
    """Return the information object: there is no stream to open or session to delete."""
    if request.method in ("GET", "HEAD") and "text/event-stream" not in request.headers.get("accept", ""):
        return Response(body, media_type="application/json")
    return Response(status_code=405, headers={"allow": "GET, HEAD, POST"})
