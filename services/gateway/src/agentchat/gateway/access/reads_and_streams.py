"""Bound what one account may have of a gateway at a time, so that others are served.

A read counts until its client has taken the answer, so that slow readers of one account wait for each other.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from agentchat.directory.api_keys import Caller
from agentchat.gateway.http.problems import Refusal

READS_AT_ONCE = 4
TURN_SECONDS = 15.0
STREAMS_PER_RUN = 4
LEAST_STREAMS = 20


class AccountBounds:
    """The reads and streams of accounts in this process."""

    def __init__(self) -> None:
        self._reads: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._streams: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def hold_read(self, caller: Caller) -> AsyncIterator[None]:
        """Hold one of the account's reads while the block reads and answers, after waiting for a free one.

        Raises Refusal: 429 if none becomes free in 15 s.
        """
        reads = self._reads.setdefault(caller.account_id, asyncio.Semaphore(READS_AT_ONCE))
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await reads.acquire()
        except TimeoutError:
            raise Refusal("rate_limited", "Earlier answers were not read yet.", retry_after=1) from None
        try:
            yield
        finally:
            reads.release()

    @contextlib.asynccontextmanager
    async def hold_stream(self, caller: Caller) -> AsyncIterator[None]:
        """Count a stream that is read again: four for each concurrent run of the plan, at least 20.

        Raises Refusal: 429. A plan without that number has no bound.
        """
        account_id, runs = caller.account_id, caller.plan.concurrent_runs
        if runs is not None and self._streams[account_id] >= max(LEAST_STREAMS, STREAMS_PER_RUN * runs):
            raise Refusal("rate_limited", "Too many streams are being read.")
        self._streams[account_id] += 1
        try:
            yield
        finally:
            self._streams[account_id] -= 1
            if not self._streams[account_id]:
                del self._streams[account_id]
