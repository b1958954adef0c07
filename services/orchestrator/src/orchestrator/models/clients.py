"""An SDK's clients: one for each pair of address and key, all on shared connections."""

import contextlib
import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import httpx2

from net_guard import Guard
from net_guard.transport import GuardedTransport
from orchestrator.models.port import Credentials

_CONNECT_SECONDS = 5.0
_KEEPALIVE_SECONDS = 60.0
_CLIENTS = 256

Client = TypeVar("Client")


class Clients(Generic[Client]):
    """`http` makes an HTTP client on aiohttp, as the SDK has it; `sdk` one of the SDK's own on top of it."""

    def __init__(
        self,
        http: Callable[..., httpx2.AsyncClient],
        sdk: Callable[[Credentials, httpx2.AsyncClient], Client],
        guard: Guard,
    ) -> None:
        self._sdk = sdk
        self._guard = guard
        self._guarded: httpx2.AsyncClient | None = None
        self._clients: OrderedDict[Credentials, Client] = OrderedDict()
        self._http = _http_client(http, trust_env=True)
        self._loopback = _http_client(http, trust_env=False)  # no proxy of the environment leads to this host

    def of(self, credentials: Credentials) -> Client:
        """The client for these; the one that was used longest ago is forgotten for it."""
        client = self._clients.get(credentials)
        if client is None:
            client = self._clients[credentials] = self._sdk(credentials, self._way(credentials))
            if len(self._clients) > _CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(credentials)
        return client

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
        await self._loopback.aclose()
        if self._guarded is not None:
            await self._guarded.aclose()

    def _way(self, credentials: Credentials) -> httpx2.AsyncClient:
        if credentials.guarded:
            self._guarded = self._guarded or _guarded_client(self._guard)
            return self._guarded
        return self._loopback if _is_loopback(credentials.base_url) else self._http


def _http_client(http: Callable[..., httpx2.AsyncClient], *, trust_env: bool) -> httpx2.AsyncClient:
    return http(
        timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
        # Run slots bound the calls. 0 is aiohttp's word for "no limit"; None would leave its default of 100.
        limits=httpx2.Limits(max_connections=0, keepalive_expiry=_KEEPALIVE_SECONDS),
        follow_redirects=False,
        trust_env=trust_env,
    )


def _guarded_client(guard: Guard) -> httpx2.AsyncClient:
    """No proxy: it would connect to what it finds behind a name, whatever was judged here."""
    tls = httpx2.create_ssl_context()
    return httpx2.AsyncClient(
        transport=GuardedTransport(guard, tls, keepalive_seconds=_KEEPALIVE_SECONDS),
        timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=False,
    )


def _is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
