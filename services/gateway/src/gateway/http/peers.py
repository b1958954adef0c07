"""The address that a request comes from, as far as it can be believed. Pure."""

import functools
import ipaddress
from collections.abc import Iterable

from gateway.http.exchange import Exchange
from runtime.settings import SettingsError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEADER = b"x-forwarded-for"
_MOST_HOPS = 20


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks from addresses and networks as text. Raises SettingsError."""
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise SettingsError(f"AGENTCHAT_TRUSTED_PROXIES: {error}") from None


def peer_of(exchange: Exchange, trusted: tuple[Network, ...]) -> str:
    """The address in front of the trusted proxies, of IPv6 its network of 64 bits: a host has all of that.

    X-Forwarded-For counts only from a trusted proxy, and of it the rightmost address that is none itself:
    what stands before was written by the caller.
    """
    client = exchange.scope.get("client")
    found = _address(client[0]) if client else None
    hops = b",".join(exchange.header(_HEADER)).rsplit(b",", _MOST_HOPS)
    while found is not None and hops and _is_in(found, trusted):
        hop = _address(hops.pop().decode("latin-1"))
        if hop is None:
            break
        found = hop
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)


@functools.lru_cache(1024)
def _address(text: str) -> Address | None:
    """An address as it stands in the header, with a port or without."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
