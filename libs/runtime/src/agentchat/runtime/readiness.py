"""Whether something that work depends on is there: a flag of which both values can be awaited."""

import asyncio


class ReadinessFlag:
    """Of one event loop. Ready until it is said not to be."""

    def __init__(self) -> None:
        self._ready = asyncio.Event()
        self._unready = asyncio.Event()
        self._ready.set()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def set(self, ready: bool) -> None:
        became, was = (self._ready, self._unready) if ready else (self._unready, self._ready)
        was.clear()
        became.set()

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def wait_unready(self) -> None:
        await self._unready.wait()
