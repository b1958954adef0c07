"""aiohttp sessions for requests to servers of others, to judged addresses where a guard is given."""

import contextlib
import ipaddress
import socket
import ssl
import urllib.request

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agentchat.net_guard.addresses import judged_addresses
from agentchat.net_guard.guard import Guard


def open_session(
    tls: ssl.SSLContext,
    *,
    keepalive_seconds: float,
    timeout: aiohttp.ClientTimeout = aiohttp.ClientTimeout(),  # noqa: B008 - a frozen value without limits
    connections: int = 0,
    guard: Guard | None = None,
    account_id: str | None = None,
) -> aiohttp.ClientSession:
    """Keeps no cookie, reads no setting of the environment, neither requests nor expands compressed answers.

    Callers refuse redirects by `allow_redirects=False`, and with a guard judge each URL by `judge` first.
    `connections` 0: as many as there are requests. `account_id`: as in `judged_addresses`.
    aiohttp's bounds of an answer's head hold: 8,190 bytes a line, 128 headers.
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


def judge(guard: Guard, url: URL) -> None:
    """Judge a URL that a session with the guard is to request. Raises AddressRefused."""
    has_user = "@" in url.raw_authority
    guard.check(url.scheme, url.raw_host or "", url.explicit_port, userinfo=has_user)


def is_compressed(answer: aiohttp.ClientResponse) -> bool:
    return answer.headers.get("content-encoding", "identity").strip().lower() != "identity"


def environment_proxy(url: URL) -> str | None:
    """The proxy that the environment names for a URL; None where the URL leads to this host."""
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
    """Finds the judged addresses of a name, and the connection goes to one of these.

    aiohttp does not look up a host that is an address itself; `judge` judges that one.
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
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await judged_addresses(self._guard, host, port, self._account_id)
        ]

    async def close(self) -> None:
        """Nothing is open."""
