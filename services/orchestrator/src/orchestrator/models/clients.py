"""An SDK's clients: one for each pair of address and key, all on shared connections."""

import contextlib
import ipaddress
import ssl
from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx2

from net_guard import Guard
from net_guard.addresses import looked_up_by
from net_guard.transport import GuardedTransport
from orchestrator.models.port import Credentials
from runtime.bounded import BoundedMap
from runtime.http.client import HttpClient

CONNECT_SECONDS = 5.0
_KEEPALIVE_SECONDS = 60.0
_CLIENTS = 256

Client = TypeVar("Client")


class Clients(Generic[Client]):
    """`sdk` makes one of the SDK's on top of an HTTP client."""

    def __init__(self, sdk: Callable[[Credentials, httpx2.AsyncClient], Client], guard: Guard) -> None:
        self._sdk = sdk
        self._guard = guard
        self._guarded: httpx2.AsyncClient | None = None
        self._clients: BoundedMap[Credentials, Client] = BoundedMap(_CLIENTS)
        tls = httpx2.create_ssl_context()
        self._direct = HttpClient(tls, connect_seconds=CONNECT_SECONDS, keepalive_seconds=_KEEPALIVE_SECONDS)
        self._judged = HttpClient(
            tls,
            connect_seconds=CONNECT_SECONDS,
            keepalive_seconds=_KEEPALIVE_SECONDS,
            look_up=looked_up_by(guard),
            any_encoding=True,  # the status of a compressed refusal is wanted, and never what it holds
        )
        self._http = _http_client(tls, trust_env=True)
        self._loopback = _http_client(tls, trust_env=False)  # no proxy of the environment leads to this host
        self._unsent = httpx2.AsyncClient(**_common(), transport=_Unsent(), trust_env=False)

    def of(self, credentials: Credentials) -> Client:
        """The client for these; the one that was used longest ago is forgotten for it."""
        client = self._clients.get(credentials)
        if client is None:
            client = self._sdk(credentials, self._way(credentials))
            self._clients.put(credentials, client)
        return client

    def unsent(self, credentials: Credentials) -> Client:
        """A client like that, whose calls fail with the request that they would have sent."""
        return self._sdk(credentials, self._unsent)

    def direct(self, credentials: Credentials, url: httpx2.URL) -> HttpClient | None:
        """What sends its requests past it; None where their way is through a proxy.

        Raises AddressRefused for an agent's own address that the guard refuses.
        """
        if credentials.guarded:
            self._guard.check(url.scheme, url.raw_host.decode("ascii"), url.port, userinfo=bool(url.userinfo))
            return self._judged
        if url.scheme not in ("http", "https"):
            return None
        way = self._way(credentials)
        return self._direct if way._transport_for_url(url) is way._transport else None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._direct.aclose()
        await self._judged.aclose()
        await self._http.aclose()
        await self._loopback.aclose()
        if self._guarded is not None:
            await self._guarded.aclose()

    def _way(self, credentials: Credentials) -> httpx2.AsyncClient:
        if credentials.guarded:
            self._guarded = self._guarded or _guarded_client(self._guard)
            return self._guarded
        return self._loopback if _is_loopback(credentials.base_url) else self._http


def _http_client(tls: ssl.SSLContext, *, trust_env: bool) -> httpx2.AsyncClient:
    """Run slots bound the calls: no limit of connections."""
    limits = httpx2.Limits(max_connections=None, keepalive_expiry=_KEEPALIVE_SECONDS)
    return httpx2.AsyncClient(**_common(), verify=tls, limits=limits, trust_env=trust_env)


class _Unsent(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("it is not to be sent", request=request)


def _guarded_client(guard: Guard) -> httpx2.AsyncClient:
    """No proxy: it would connect to what it finds behind a name, whatever was judged here."""
    tls = httpx2.create_ssl_context()
    transport = GuardedTransport(guard, tls, keepalive_seconds=_KEEPALIVE_SECONDS)
    return httpx2.AsyncClient(**_common(), transport=transport, trust_env=False)


def _common() -> dict[str, Any]:
    """A client is shared by all accounts: no cookie is kept."""
    return {
        "timeout": httpx2.Timeout(None, connect=CONNECT_SECONDS),
        "follow_redirects": False,
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=())),
        "event_hooks": {"response": [without_charset]},
    }


async def without_charset(response: httpx2.Response) -> None:
    """All is UTF-8. Python has codecs that expand a body, and some that raise what the SDKs do not expect."""
    response.headers["content-type"] = response.headers.get("content-type", "").partition(";")[0]


def _is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
