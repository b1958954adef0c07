"""Find the address that a request comes from, as far as it can be believed. Pure."""

import functools
import ipaddress
from collections.abc import Iterable
from typing import Any

from agentchat.runtime.settings import SettingsError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_MOST_HOPS = 20


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse addresses and networks. Raises SettingsError."""
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise SettingsError(f"AGENTCHAT_TRUSTED_PROXIES: {error}") from None


def find_peer(scope: Any, trusted: tuple[Network, ...]) -> str:
    """Return the address in front of the trusted proxies; of IPv6 its /64, as a host has all of it.

    X-Forwarded-For counts only from a trusted proxy, and of it the rightmost address that is none itself:
    what stands before was written by the caller.
    """
    client = scope.get("client")
    found = _parse_address(client[0]) if client else None
    forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
    hops = forwarded.decode("latin-1").rsplit(",", _MOST_HOPS)
    while found is not None and hops and _is_in(found, trusted):
        hop = _parse_address(hops.pop())
        if hop is None:
            break
        found = hop
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)


@functools.lru_cache(1024)
def _parse_address(text: str) -> Address | None:
    """Parse an address as the header has it, with or without a port."""
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
