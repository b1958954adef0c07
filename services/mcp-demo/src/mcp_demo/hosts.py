"""Guards against DNS rebinding: only requests that name this server by a name it answers to.

A page of another site can make a browser send requests to a loopback address, but not choose the Host and
Origin that the browser writes. Source: MCP specification, transports, security warning.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def bound_name(host: str) -> tuple[str, ...]:
    """The name that an address bound to stands for; an address that means "all of them" names nothing."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared with, not bound to
        return ()
    return (f"[{host}]" if ":" in host else host,)


class Refusal(msgspec.Struct, frozen=True):
    """The HTTP status and the words that answer a request which is not for this server."""

    status: int
    message: str


class Hosts:
    """The names this server answers to: `name` on every port, `name:port` on that one; IPv6 in brackets."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower() for name in (*LOOPBACK, *names)}

    def refusal(self, hosts: list[str], origins: list[str]) -> Refusal | None:
        """None if the values of the Host and Origin headers are all right; a request need have no Origin."""
        if len(hosts) != 1:
            return Refusal(400, "Bad request: exactly one Host header is needed")
        if not self._known(hosts[0]):
            return Refusal(421, "Misdirected request: this server does not answer to that Host")
        if not all(self._known_origin(origin) for origin in origins):
            return Refusal(403, "Forbidden: requests from that Origin are not taken")
        return None

    def _known(self, authority: str) -> bool:
        authority = authority.strip().lower()
        name, colon, port = authority.rpartition(":")
        if not colon or not port.isdecimal():
            name = authority
        return authority in self._names or name in self._names

    def _known_origin(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin.strip())
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and self._known(parts.netloc)
