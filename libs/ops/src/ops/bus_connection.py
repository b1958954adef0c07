"""A connection to a system's NATS for a command: tried for a bounded time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from bus import Bus, BusUnavailable
from ops.errors import RefusedError

_SECONDS = 8.0


@contextlib.asynccontextmanager
async def connected(url: str, name: str) -> AsyncIterator[Bus]:
    """Raises RefusedError."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(_SECONDS):
                bus = await stack.enter_async_context(Bus.connect(url, name=name))
        except (TimeoutError, BusUnavailable):
            raise RefusedError("NATS cannot be reached") from None
        yield bus
