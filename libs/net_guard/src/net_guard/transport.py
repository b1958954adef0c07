"""An HTTP client's transport to judged addresses alone."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator

import httpcore2
import httpx2

from net_guard.guard import AddressRefused, Guard
from net_guard.network import ERRORS, GuardedBackend


class GuardedTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1. What goes wrong is an httpx2.TransportError, caused by AddressRefused where that is why."""

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
        url = request.url
        with _as_httpx2():
            self._guard.check(url.scheme, url.raw_host.decode("ascii"), url.port, userinfo=bool(url.userinfo))
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))

    async def aclose(self) -> None:
        """Close every connection."""
        with contextlib.suppress(*ERRORS):
            await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2():
            async for part in self._answer.aiter_stream():
                yield part

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
