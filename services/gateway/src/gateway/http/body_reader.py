"""Where large bodies are read: next to the event loop, by turns and by shares of the accounts."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from runtime.cpu_budget import CpuBudget
from runtime.fair_slots import FairSlots

SECONDS_A_BYTE = 125e-9
"""Of CPU, in all services: a history of 900 KB costs 0.12 s until its reply is stored."""
SHARE, BURST_SECONDS = 0.5, 2.0
"""Of an account at one gateway: 4 MB a second, after a burst of 16 MB."""
MOST_WAIT_SECONDS = 10.0

T = TypeVar("T")


class ShareExceeded(Exception):  # noqa: N818 - an outcome
    """The account has sent so much that it would wait for `seconds`, which is too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = math.ceil(seconds)


class BodyReader:
    """One thread for all: more of them would keep the event loop waiting for the interpreter's lock."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bodies")
        self._turns = FairSlots(1)
        self._budget = CpuBudget(SHARE, BURST_SECONDS)

    async def run(self, account_id: str | None, size: int, work: Callable[[], T]) -> T:
        """What `work` returns, in the turn of this account; None for an administrator.

        `size` is in bytes, 0 for a body that was counted before: an account that sends too many waits.
        Raises ShareExceeded.
        """
        if account_id is not None and size:
            if (wait := self._budget.wait_seconds(account_id)) > MOST_WAIT_SECONDS:
                raise ShareExceeded(wait)
            # Spent before the wait, so that the next one's wait includes this one.
            self._budget.spend(account_id, size * SECONDS_A_BYTE)
            await asyncio.sleep(wait)
        async with self._turns.turn(account_id):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
