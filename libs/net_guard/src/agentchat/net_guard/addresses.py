"""The judged addresses of a host, to connect to."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from urllib.parse import urlsplit

from agentchat.net_guard.guard import Guard, NotLookedUp, Unresolved

CONNECT_SECONDS = 5.0
_ADDRESSES_TRIED = 3

_account: ContextVar[str | None] = ContextVar("account of a look-up", default=None)


@contextlib.contextmanager
def looking_up_for(account_id: str) -> Iterator[None]:
    """Look-ups within the block, and in tasks that it begins, take this account's turns with the resolver.

    For clients whose connections serve all accounts.
    """
    token = _account.set(account_id)
    try:
        yield
    finally:
        _account.reset(token)


async def judged_addresses(guard: Guard, host: str, port: int, account_id: str | None = None) -> list[str]:
    """The first ones of them.

    Turns with the resolver are those of `account_id`, or of the block (`looking_up_for`); outside of one each
    host takes its own. Raises AddressRefused, Unresolved, NotLookedUp.
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await guard.addresses(host, port, account_id or _account.get() or host)
    except TimeoutError as error:
        raise NotLookedUp("no name server answered in time") from error
    return found[:_ADDRESSES_TRIED]


async def judge_url(guard: Guard, url: str, account_id: str | None = None) -> None:
    """Judge a URL that is to be saved, and the addresses that its host has now.

    A name that does not resolve now may do so later, and is no reason to refuse. Raises AddressRefused,
    ValueError.
    """
    guard.check_url(url)
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with contextlib.suppress(Unresolved):
        await judged_addresses(guard, parts.hostname or "", port, account_id)
