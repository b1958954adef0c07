"""Serve POST /mcp/v1: each enabled agent of the account is a tool. The MCP SDK reads and writes JSON-RPC.

The transport is Streamable HTTP without sessions, for every protocol version that the SDK knows. The SDK is
imported with the first request: it takes 20 MB, and most gateways never need it.
"""

from typing import Any

from litestar import Response, post
from litestar.types import Receive, Scope, Send

from agentchat.gateway.access.checks import may_use_mcp
from agentchat.gateway.http.request_context import JsonRequest

REQUEST = "agentchat.request"
"""The key of our request in the ASGI scope that the SDK hands to its handlers."""


@post(
    ["/mcp/v1", "/mcp/v1/agents/{agent:str}"], status_code=200, guards=[may_use_mcp], include_in_schema=False
)
async def serve_mcp(request: JsonRequest) -> Response[Any]:
    """Answer one JSON-RPC message; at the address of an agent, this one is the only tool."""
    return _McpResponse(request, await request.body())


class _McpResponse(Response[Any]):
    """The SDK's answer: JSON, or server-sent events with progress before the result."""

    def __init__(self, request: JsonRequest, body: bytes) -> None:
        super().__init__(None)
        self._request = request
        self._body: bytes | None = body

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        return self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK answer. It gets the body that the guard has received."""
        from agentchat.gateway.protocols.mcp.agent_tools import build_manager

        async def replay() -> Any:
            body, self._body = self._body, None
            if body is None:
                return await receive()
            return {"type": "http.request", "body": body, "more_body": False}

        manager = build_manager()
        async with manager.run():
            await manager.handle_request({**scope, REQUEST: self._request}, replay, send)  # type: ignore[arg-type]
