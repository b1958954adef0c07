"""What an account has stored against what its plan lets it store, before anything is written for it.

It is read from a read model, which follows the log by a moment, and cached: an account may exceed its bound
by what it writes within a few seconds.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from conversations.projections.storage_table import stored_of
from directory.caller import Caller
from gateway.http.refusals import Refusal
from runtime import logs
from runtime.bounded import BoundedMap
from runtime.postgres import DatabaseUnavailable, Pool

CACHED_SECONDS = 3.0
LARGEST_SHARE = 0.05
"""Of the time, for which the database may be adding up one account's rows: a large account's sum is cached
longer.
"""

_FIRST_SECONDS = 1.0
"""For which a request waits for an account's first sum; without one nothing is refused."""

_MAX_ACCOUNTS = 20_000
_AT_ONCE = 2


class _Cached(msgspec.Struct, frozen=True):
    bytes: int
    until: float


class StorageBounds:
    """The stored bytes of the accounts that asked last; of plans without a bound nothing is read.

    Close with `aclose`.
    """

    def __init__(self, pool: Pool, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._accounts: BoundedMap[str, _Cached] = BoundedMap(_MAX_ACCOUNTS)
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._log = logs.get_logger("gateway.storage")

    async def left(self, caller: Caller) -> int | None:
        """The bytes that the account may still store, 0 at least; None without a bound, or if unknown."""
        bound = caller.plan.storage_bytes
        if bound is None:
            return None
        stored = await self._stored(caller.account_id)
        return None if stored is None else max(0, bound - stored)

    async def check(self, caller: Caller) -> None:
        """Raises Refusal: 403 storage_full."""
        refuse_full(caller, await self.left(caller))

    def read(self, account_id: str) -> asyncio.Task[None]:
        """Add up an account's rows, once at a time, while requests go on with what is cached."""
        reading = self._reading.get(account_id)
        if reading is None:
            reading = self._reading[account_id] = asyncio.create_task(self._add_up(account_id))
            reading.add_done_callback(lambda _: self._reading.pop(account_id, None))
        return reading

    async def aclose(self) -> None:
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stored(self, account_id: str) -> int | None:
        cached = self._accounts.get(account_id)
        if cached is None or self._clock() >= cached.until:
            reading = self.read(account_id)
            if cached is None:
                await asyncio.wait([reading], timeout=_FIRST_SECONDS)
                cached = self._accounts.get(account_id)
        return None if cached is None else cached.bytes

    async def _add_up(self, account_id: str) -> None:
        async with self._free:
            began = self._clock()
            try:
                stored = await stored_of(self._pool, account_id)
            except DatabaseUnavailable as error:
                self._log.warning("storage_not_read", account_id=account_id, reason=str(error))
                return
            now = self._clock()
        until = now + max(CACHED_SECONDS, (now - began) / LARGEST_SHARE)
        self._accounts.put(account_id, _Cached(stored.bytes, until))


def refuse_full(caller: Caller, left: int | None) -> None:
    """Raises Refusal: 403 storage_full, where `left` is 0."""
    if left == 0:
        bound = caller.plan.storage_bytes or 0
        raise Refusal("storage_full", f"The plan lets the account store {bound:,} bytes.")
