"""A run that streams: frames that come twice, or not at all, leave its text as it is in the end."""

import asyncio
import os
from collections.abc import AsyncIterator

from agentchat.bus.bus import Bus
from agentchat.console.shared.streamed_run import StreamedRun, follow_run
from agentchat.contracts import frames
from tests.conversations.given import (
    build_delta,
    build_run_failed,
    build_run_started,
    build_user_message,
    trace,
)
from tests.conversations.read_models import Storage


async def wait_for_tail(following: AsyncIterator[StreamedRun], tail: str) -> StreamedRun:
    async with asyncio.timeout(20):
        async for live in following:
            if live.tail == tail:
                return live
    raise AssertionError(f"it ended without {tail!r}")


async def test_each_text_is_streamed_once(storage: Storage, bus: Bus) -> None:
    word = os.urandom(8).hex()

    async def make_delta(text: str, offset: int, number: int = 1) -> None:
        frame = frames.DeltaFrame(seq=1, attempt=1, round=number, text=text, offset=offset)
        await bus.traces.publish_frame(trace(word), frame)

    thread = await storage.add(build_user_message(word), build_run_started(word))
    following = follow_run(bus, storage.pool, trace(word))
    await wait_for_tail(following, "")
    for text, offset in (("Hel", 0), ("lo", 3), ("Hel", 0), ("never", 99), ("lo", 3)):
        await make_delta(text, offset)
    live = await wait_for_tail(following, "Hello")
    assert live.run is not None
    assert live.run.state == "running"
    thread = await storage.store.append(thread, build_delta("Hello, you. ", word))
    await bus.traces.publish_frame(
        trace(word), frames.ToolReturnedFrame(seq=9, attempt=1, call_id="c", is_error=False)
    )
    live = await wait_for_tail(following, "")
    assert live.run is not None
    assert live.run.text == "Hello, you. "
    await make_delta("More", 12, 2)
    await wait_for_tail(following, "More")
    await wait_for_tail(follow_run(bus, storage.pool, trace(word)), "More")  # by what the bus has kept
    await storage.store.append(thread, [build_run_failed(word)])
    await bus.traces.publish_frame(
        trace(word), frames.Failed(seq=10, attempt=1, code="cancelled", message="")
    )
    async with asyncio.timeout(20):
        *_, last = [live async for live in following]
    assert last.ended
