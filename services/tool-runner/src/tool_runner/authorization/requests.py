"""HTTP to authorization servers, strangers too: every request is judged, bounded and not redirected."""

import asyncio
import ssl
from collections.abc import Callable
from typing import ParamSpec

import httpx2

from net_guard import AddressRefused, Guard
from net_guard.transport import GuardedTransport
from tool_runner.faults import ToolFailed

REQUEST_SECONDS = 6.0
_BYTES = 256 * 1024
_KEEPALIVE_SECONDS = 4.0
_USER_AGENT = "agent-chat-service/0.1.0"
_Given = ParamSpec("_Given")
_READ = ("www-authenticate", "location")
"""The headers of an answer that count; others, such as a charset that is none, can only do harm."""


def made(
    make: Callable[_Given, httpx2.Request], *given: _Given.args, **named: _Given.kwargs
) -> httpx2.Request:
    """A request to an address that a server has named, which may be none. Raises ToolFailed."""
    try:
        return make(*given, **named)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolFailed("authorization", "the metadata's address is none") from error


class AuthorizationHttp:
    """One client for all authorization servers; it keeps no cookie between two requests."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext) -> None:
        self.guard = guard
        self._transport = GuardedTransport(guard, tls, keepalive_seconds=_KEEPALIVE_SECONDS)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """The whole answer, whatever its status; a redirect is one. Raises ToolFailed."""
        return await self._send(request, _BYTES)

    async def head(self, request: httpx2.Request) -> httpx2.Response:
        """The status and the headers of an answer whose body is not read. Raises ToolFailed."""
        return await self._send(request, 0)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _send(self, request: httpx2.Request, most: int) -> httpx2.Response:
        request.headers["user-agent"] = _USER_AGENT
        host = request.url.host
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._transport.handle_async_request(request)
                try:
                    body = await _body(answer, most) if most else b""
                finally:
                    await answer.aclose()
        except TimeoutError as error:
            raise ToolFailed("timeout", f"no answer of {host}") from error
        except httpx2.TransportError as error:
            if isinstance(error.__cause__, AddressRefused):
                raise ToolFailed("address", f"{host}: {error.__cause__}") from error
            raise ToolFailed("unreachable", f"{host}: {error}"[:200]) from error
        read = [(name, value) for name, value in answer.headers.multi_items() if name in _READ]
        return httpx2.Response(answer.status_code, headers=read, content=body, request=request)


async def _body(answer: httpx2.Response, most: int) -> bytes:
    """Raises ToolFailed where it is larger than `most` bytes."""
    body = b""
    async for part in answer.aiter_raw():
        body += part
        if len(body) > most:
            raise ToolFailed("oversized", "an authorization server's answer")
    return body
