"""What the tests of limits share: names, times, and a month as a log would have it."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec

from limits import Limiter


def new() -> str:
    return uuid4().hex


def at(seconds: float = 0.0) -> str:
    """A time of this month, so many seconds from now."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A month as counted."""

    tokens: int
    recent: dict[str, int] = {}
    counted_to: str = msgspec.field(default_factory=lambda: at(-120))
    month: str = msgspec.field(default_factory=lambda: at()[:7])


async def zero() -> Counted:
    return Counted(tokens=0)


async def set_month(limiter: Limiter, account: str, tokens: int) -> None:
    async def count() -> Counted:
        return Counted(tokens=tokens)

    assert await limiter.recount_month(account, count)


async def account_with(limiter: Limiter, tokens: int) -> str:
    """An account whose month has so many."""
    account = new()
    await set_month(limiter, account, tokens)
    return account
