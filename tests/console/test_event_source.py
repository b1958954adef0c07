"""What streams its parts to a page ends in order when the page is closed."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import anyio

from agentchat.console.frame.event_source import stream_events


async def test_closed_page_lets_the_parts_finish() -> None:
    """A cancelled scope of anyio, as Litestar's Stream has one, cancels at each await."""
    waiting, finished = asyncio.Event(), asyncio.Event()

    async def yield_parts() -> AsyncGenerator[str, None]:
        try:
            yield "first"
            waiting.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            finished.set()

    async def read_all() -> None:
        async with contextlib.aclosing(stream_events(yield_parts())) as events:
            async for _ in events:
                pass

    async with anyio.create_task_group() as group:
        group.start_soon(read_all)
        await waiting.wait()
        group.cancel_scope.cancel()
    async with asyncio.timeout(5):
        await finished.wait()
