"""aiohttp sessions for requests to servers of others, to judged addresses where a guard is given."""

import socket
import ssl

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from net_guard.addresses import judged_addresses
from net_guard.guard import Guard


def open_session(
    tls: ssl.SSLContext,
    *,
    keepalive_seconds: float,
    connect_seconds: float | None = None,
    guard: Guard | None = None,
) -> aiohttp.ClientSession:
    """Keeps no cookie, reads no setting of the environment, neither requests nor expands compressed answers.

    Callers refuse redirects by `allow_redirects=False`, and bound the number of requests: a session has as
    many connections as requests. With a guard they judge each URL by `Guard.check` before they request it.
    aiohttp's bounds of an answer's head hold: 8,190 bytes a line, 128 headers.
    """
    connector = aiohttp.TCPConnector(
        limit=0,
        ssl=tls,
        keepalive_timeout=keepalive_seconds,
        use_dns_cache=False,
        resolver=aiohttp.ThreadedResolver() if guard is None else _GuardedResolver(guard),
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity"},
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_seconds),
    )


class _GuardedResolver(AbstractResolver):
    """Finds the judged addresses of a name, and the connection goes to one of these.

    aiohttp does not look up a host that is an address itself; `Guard.check` judges that one.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

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
            for address in await judged_addresses(self._guard, host, port)
        ]

    async def close(self) -> None:
        """Nothing is open."""
