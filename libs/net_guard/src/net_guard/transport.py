"""An HTTP client's transport to judged addresses alone."""

import contextlib
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpcore2
import httpx2

from net_guard.guard import AddressRefused, Guard
from net_guard.network import ERRORS, GuardedBackend

MAX_ERROR_BYTES = 1024 * 1024
"""Of the body of an answer that is no success; the rest is not read."""


def judged(
    guard: Guard, request: httpx2.Request, content: Any, extensions: dict[str, Any]
) -> httpcore2.Request:
    """The request as httpcore takes it, if it may be sent. Raises AddressRefused."""
    url = request.url
    guard.check(url.scheme, url.raw_host.decode("ascii"), url.port, userinfo=bool(url.userinfo))
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=content,
        extensions=extensions,
    )


class GuardedTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1. What goes wrong is an httpx2.TransportError, caused by AddressRefused where that is why.

    A compressed body could expand without end: none is asked for, and one that comes all the same is a
    TransportError, or empty where the status says enough. The body of an error is cut at MAX_ERROR_BYTES.
    """

    def __init__(self, guard: Guard, tls: ssl.SSLContext, *, keepalive_seconds: float) -> None:
        self._guard = guard
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=None,
            keepalive_expiry=keepalive_seconds,
            network_backend=GuardedBackend(guard),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; follows no redirect."""
        request.headers["accept-encoding"] = "identity"
        with _as_httpx2():
            answer = await self._pool.handle_async_request(
                judged(self._guard, request, request.stream, request.extensions)
            )
            headers = httpx2.Headers(answer.headers)
            compressed = headers.pop("content-encoding", "identity").strip().lower() != "identity"
            if not 200 <= answer.status < 300:
                return _response(answer, headers, 0 if compressed else MAX_ERROR_BYTES)
            if compressed:
                await answer.aclose()
                raise httpcore2.RemoteProtocolError("compressed in spite of accept-encoding")
        return _response(answer, headers, sys.maxsize)

    async def aclose(self) -> None:
        """Close every connection."""
        with contextlib.suppress(*ERRORS):
            await self._pool.aclose()


def _response(answer: httpcore2.Response, headers: httpx2.Headers, most: int) -> httpx2.Response:
    return httpx2.Response(answer.status, headers=headers, stream=_Body(answer, most))


class _Body(httpx2.AsyncByteStream):
    """As much of the answer's body as `most` bytes."""

    def __init__(self, answer: httpcore2.Response, most: int) -> None:
        self._answer = answer
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2():
            async with contextlib.aclosing(self._answer.aiter_stream()) as parts:
                while self._left > 0 and (part := await anext(parts, None)) is not None:
                    yield part[: self._left]
                    self._left -= len(part)

    async def aclose(self) -> None:
        with _as_httpx2():
            await self._answer.aclose()


@contextlib.contextmanager
def _as_httpx2() -> Iterator[None]:
    try:
        yield
    except httpcore2.TimeoutException as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except AddressRefused as error:
        raise httpx2.ConnectError("the address may not be called") from error
    except ERRORS as error:
        raise httpx2.ReadError(f"{type(error).__name__} {error}".strip()) from error
