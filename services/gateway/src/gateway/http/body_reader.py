"""Where large bodies are read: beside the event loop, by turns of the accounts."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from runtime.fair_slots import FairSlots

T = TypeVar("T")


class BodyReader:
    """One thread for all: more of them would keep the event loop waiting for the interpreter's lock."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bodies")
        self._turns = FairSlots(1)

    async def run(self, account_id: str | None, work: Callable[[], T]) -> T:
        """What `work` returns, in the turn of this account; None for an administrator."""
        async with self._turns.turn(account_id):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
