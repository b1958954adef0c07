"""How many streams one session may hold open, and how one ends."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import anyio

from agentchat.console.live.stream_limit import OpenStreams
from agentchat.console.shared.sse_parts import stream_events
from tests.console.pages import Browser, extract_text


def test_a_stream_that_ends_makes_room_for_another() -> None:
    streams = OpenStreams()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(streams.count("a"))
        assert "You have 20 live pages open" in str(streams.explain_refusal("a"))
        assert streams.explain_refusal("b") is None
    assert streams.explain_refusal("a") is None


async def test_too_many_live_pages_are_refused(browser: Browser) -> None:
    await browser.get("/health")
    opened = []
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            response = await stack.enter_async_context(browser.http.stream("GET", "/now/stream"))
            opened.append(response.aiter_raw())  # one that is let go closes its connection
            await anext(opened[-1])
        refused = await browser.get("/now/stream", **{"hx-request": "true"})
        assert (refused.status_code, refused.headers["hx-retarget"]) == (429, "#trouble")
        assert "You have 20 live pages open" in extract_text(refused.text)


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
