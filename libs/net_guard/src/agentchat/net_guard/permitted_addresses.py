"""Resolve a host to the permitted addresses that a connection may use."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from urllib.parse import urlsplit

from agentchat.net_guard.ssrf_guard import Guard, NotLookedUp, Unresolved

CONNECT_SECONDS = 5.0
_ADDRESSES_TRIED = 3

_account: ContextVar[str | None] = ContextVar("account of a look-up", default=None)


@contextlib.contextmanager
def look_up_for(account_id: str) -> Iterator[None]:
    """Charge the name look-ups of this block to the account's turns with the resolver.

    Tasks that the block starts are included. HTTP clients whose connections serve all accounts need this.
    """
    token = _account.set(account_id)
    try:
        yield
    finally:
        _account.reset(token)


async def resolve_permitted(guard: Guard, host: str, port: int, account_id: str | None = None) -> list[str]:
    """Return the first three addresses of `host`, all of them permitted.

    The look-up takes a turn of `account_id`, else of the account of the enclosing `look_up_for` block, else
    of the host itself.

    Raises:
        AddressRefused, Unresolved, NotLookedUp
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await guard.resolve(host, port, account_id or _account.get() or host)
    except TimeoutError as error:
        raise NotLookedUp("no name server answered in time") from error
    return found[:_ADDRESSES_TRIED]


async def check_saved_url(guard: Guard, url: str, account_id: str | None = None) -> None:
    """Check a URL that is about to be saved, and the addresses that its host has now.

    A name that does not resolve now is accepted, because it may resolve later.

    Raises:
        AddressRefused, ValueError
    """
    guard.check_url(url)
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with contextlib.suppress(Unresolved):
        await resolve_permitted(guard, parts.hostname or "", port, account_id)
