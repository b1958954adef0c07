"""Open aiohttp sessions to other people's servers, which connect only to permitted addresses."""

import contextlib
import functools
import ipaddress
import socket
import ssl
import urllib.request

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agentchat.net_guard.permitted_addresses import resolve_permitted
from agentchat.net_guard.ssrf_guard import Guard


@functools.cache
def get_tls_context() -> ssl.SSLContext:
    """Return the context that trusts SSL_CERT_FILE, SSL_CERT_DIR, or else the authorities of the system.

    httpx finds these also on macOS, and where Python was built for another distribution. All clients of a
    process share it, and so do the forks of `ops.fork_server`: it takes 0.8 MiB and 27 ms. It is not strict
    about RFC 5280 (Python's default from 3.13 on), as companies' own authorities are not.
    """
    import httpx2  # here, since a service may never make a request

    context = httpx2.create_ssl_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def open_session(
    tls: ssl.SSLContext,
    *,
    keepalive_seconds: float,
    timeout: aiohttp.ClientTimeout = aiohttp.ClientTimeout(),  # noqa: B008 - a frozen value without limits
    connections: int = 0,
    guard: Guard | None = None,
    account_id: str | None = None,
) -> aiohttp.ClientSession:
    """Open a session without cookies, environment settings or compression.

    Callers pass `allow_redirects=False` and, with a guard, call `check_request` for each URL first. aiohttp
    limits the head of a response to 8,190 bytes a line and 128 headers.

    Args:
        tls: The TLS context of all connections.
        keepalive_seconds: How long an idle connection is kept.
        timeout: aiohttp's time-outs; none by default.
        connections: The most connections at a time; 0 means no limit.
        guard: The guard of addresses; None connects to any address.
        account_id: The account that look-ups are charged to, see `resolve_permitted`.
    """
    connector = aiohttp.TCPConnector(
        limit=connections,
        ssl=tls,
        keepalive_timeout=keepalive_seconds,
        use_dns_cache=False,
        resolver=aiohttp.ThreadedResolver() if guard is None else _GuardedResolver(guard, account_id),
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity"},
        auto_decompress=False,
        timeout=timeout,
    )


def check_request(guard: Guard, url: URL) -> None:
    """Check a URL before a guarded session requests it. Raises AddressRefused."""
    has_user = "@" in url.raw_authority
    guard.check(url.scheme, url.raw_host or "", url.explicit_port, userinfo=has_user)


def is_compressed(answer: aiohttp.ClientResponse) -> bool:
    """Return True if the response body is compressed, which no session here asks for."""
    return answer.headers.get("content-encoding", "identity").strip().lower() != "identity"


def get_environment_proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for a URL; None for a URL of this host."""
    host = url.raw_host or ""
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class _GuardedResolver(AbstractResolver):
    """A resolver that returns permitted addresses only.

    aiohttp does not resolve a host that is an address already; `check_request` covers that case.
    """

    def __init__(self, guard: Guard, account_id: str | None) -> None:
        self._guard = guard
        self._account_id = account_id

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - aiohttp wants every family
    ) -> list[ResolveResult]:
        """Return the permitted addresses of `host` in aiohttp's form."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await resolve_permitted(self._guard, host, port, self._account_id)
        ]

    async def close(self) -> None:
        """Do nothing: the resolver holds no resources."""
