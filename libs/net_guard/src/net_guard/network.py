"""TCP for the HTTP client: it connects to addresses that the guard has judged, whatever a name says later."""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import anyio
import httpcore2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from net_guard.addresses import judged_addresses
from net_guard.guard import AddressRefused, Guard, Unresolved

ERRORS = (
    AddressRefused,
    Unresolved,
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    OSError,  # TimeoutError among them
)
"""What sending a request and reading its answer can raise."""


class GuardedBackend(AsyncNetworkBackend):
    """Resolves, judges, connects. The Host header and TLS's server name stay those of the URL.

    Without an account, each host takes its turns with the resolver for itself.
    """

    def __init__(self, guard: Guard, account_id: str | None = None) -> None:
        self._guard = guard
        self._account_id = account_id
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        addresses = await judged_addresses(self._guard, host, port, self._account_id)
        failure: Exception = Unresolved(host)
        for address in addresses:
            try:
                return _Stream(
                    await self._inner.connect_tcp(
                        address,
                        port,
                        timeout=timeout,
                        local_address=local_address,
                        socket_options=socket_options,
                    )
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(AsyncNetworkStream):
    """A connection that is closed when its TLS handshake is cancelled; httpcore2 2.16 leaves it open then."""

    def __init__(self, inner: AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
