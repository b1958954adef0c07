"""The judged addresses of a host, to connect to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from net_guard.guard import Guard, Unresolved

CONNECT_SECONDS = 5.0
_ADDRESSES_TRIED = 3

SocketAddress: TypeAlias = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
"""As `socket.getaddrinfo` has it."""


async def judged_addresses(guard: Guard, host: str, port: int, account_id: str | None = None) -> list[str]:
    """The first ones of them. Without an account, each host takes its turns with the resolver for itself.

    Raises AddressRefused, Unresolved.
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await guard.addresses(host, port, account_id or host)
    except TimeoutError as error:
        raise Unresolved("no name server answered") from error
    return found[:_ADDRESSES_TRIED]


def looked_up_by(guard: Guard) -> Callable[[str, int], Awaitable[list[SocketAddress]]]:
    """A look-up for `runtime.http.client` that finds judged addresses alone."""

    async def look_up(host: str, port: int) -> list[SocketAddress]:
        return [_socket_address(each, port) for each in await judged_addresses(guard, host, port)]

    return look_up


def _socket_address(address: str, port: int) -> SocketAddress:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
