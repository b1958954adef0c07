"""Send HTTP to authorization servers: permitted addresses, bounded responses, no redirects."""

import asyncio
import ssl
from collections.abc import Callable
from importlib.metadata import version
from typing import ParamSpec

import aiohttp
import httpx2

from agentchat.net_guard import AddressRefused, Guard
from agentchat.net_guard.guarded_session import is_compressed, open_session
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.http.network import ERRORS, send

REQUEST_SECONDS = 6.0
_BYTES = 256 * 1024
_KEEPALIVE_SECONDS = 4.0
_USER_AGENT = f"agent-chat-service/{version('agentchat-tool-runner')}"
_Given = ParamSpec("_Given")
_READ = ("www-authenticate", "location")
"""The response headers that are used; others, such as an unknown charset, can only do harm."""


def build_request(
    make: Callable[_Given, httpx2.Request], *given: _Given.args, **named: _Given.kwargs
) -> httpx2.Request:
    """Build a request to an address from metadata. Raises ToolFailed if it is not a URL."""
    try:
        return make(*given, **named)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolFailed("authorization", "the metadata contain an invalid address") from error


class AuthorizationHttp:
    """The HTTP client for all authorization servers. It keeps no cookies."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext) -> None:
        self.guard = guard
        self._session = open_session(tls, keepalive_seconds=_KEEPALIVE_SECONDS, guard=guard)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Return the complete response, whatever its status; redirects are not followed.

        Raises ToolFailed.
        """
        return await self._send(request, _BYTES)

    async def head(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response without reading its body. Raises ToolFailed."""
        return await self._send(request, 0)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _send(self, request: httpx2.Request, most: int) -> httpx2.Response:
        request.headers |= {"user-agent": _USER_AGENT, "accept-encoding": "identity"}
        host = request.url.host
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await send(self._session, self.guard, request)
                try:
                    body = await _read_body(answer, most) if most else b""
                finally:
                    answer.release()
        except TimeoutError as error:
            raise ToolFailed("timeout", f"{host} did not answer in time") from error
        except AddressRefused as error:
            raise ToolFailed("address", f"{host}: {error}") from error
        except ERRORS as error:
            raise ToolFailed("unreachable", f"{host}: {type(error).__name__}") from error
        read = [(name, value) for name, value in answer.headers.items() if name.lower() in _READ]
        return httpx2.Response(answer.status, headers=read, content=body, request=request)


async def _read_body(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Read the body of a response.

    A compressed error body is ignored, because it could be a bomb.

    Raises:
        ToolFailed: The body is larger than `most` bytes.
        aiohttp.ClientError: A successful response is compressed.
    """
    if is_compressed(answer):
        if answer.ok:
            raise aiohttp.ClientPayloadError("compressed although that was not requested")
        return b""
    body = b""
    async for part in answer.content.iter_any():
        body += part
        if len(body) > most:
            raise ToolFailed("oversized", "an authorization server's answer")
    return body
