"""Provide a flag for the availability of a dependency; both of its values can be awaited."""

import asyncio


class ReadinessFlag:
    """A flag of one event loop, ready until it is set otherwise."""

    def __init__(self) -> None:
        self._ready = asyncio.Event()
        self._unready = asyncio.Event()
        self._ready.set()

    @property
    def is_ready(self) -> bool:
        """True while the dependency is available."""
        return self._ready.is_set()

    def set(self, ready: bool) -> None:
        """Change the flag and wake up those that wait for its new value."""
        became, was = (self._ready, self._unready) if ready else (self._unready, self._ready)
        was.clear()
        became.set()

    async def wait_ready(self) -> None:
        """Wait until the flag is ready."""
        await self._ready.wait()

    async def wait_unready(self) -> None:
        """Wait until the flag is not ready."""
        await self._unready.wait()
