"""Items that wait together are handled together, each with its own result, error and deadline."""

import asyncio
import contextlib
import contextvars
from collections.abc import Sequence

import pytest

from agentchat.runtime.batching import Batcher


class Doubling:
    """Handles a batch of numbers once it is let go; an odd one is refused."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def __call__(self, items: Sequence[int], _end: float) -> Sequence[int | ValueError]:
        self.batches.append([*items])
        self.begun.set()
        await self.goes_on.wait()
        return [ValueError(item) if item % 2 else 2 * item for item in items]


async def test_items_during_a_call_form_the_next_batch() -> None:
    handle = Doubling()
    async with contextlib.aclosing(Batcher(handle, most=3)) as batcher:
        first = asyncio.create_task(batcher.call(2))
        await handle.begun.wait()
        rest = [asyncio.create_task(batcher.call(item)) for item in (4, 5, 6, 8)]
        gone = asyncio.create_task(batcher.call(10))
        await asyncio.sleep(0)
        gone.cancel()
        handle.goes_on.set()
        results = await asyncio.gather(first, *rest, return_exceptions=True)
    assert handle.batches == [[2], [4, 5, 6], [8]]
    assert [str(result) for result in results] == ["4", "8", "5", "12", "16"]
    assert isinstance(results[2], ValueError)


async def test_a_batch_is_handled_in_no_callers_context() -> None:
    seen = []
    who = contextvars.ContextVar("who", default="nobody")

    async def handle(items: Sequence[int], _end: float) -> Sequence[int]:
        seen.append(who.get())
        return items

    async def call(caller: str) -> int:
        who.set(caller)
        return await batcher.call(1)

    async with contextlib.aclosing(Batcher(handle, inline=True)) as batcher:
        await asyncio.create_task(call("one"))
        await asyncio.gather(call("two"), call("three"))
    assert seen == ["one", "nobody"]


async def test_those_that_must_not_go_together_are_selected() -> None:
    handle = Doubling()
    handle.goes_on.set()
    batcher = Batcher(handle, select=lambda items: [items.index(item) for item in set(items)])
    async with contextlib.aclosing(batcher):
        assert await asyncio.gather(*(batcher.call(item) for item in (2, 2, 4))) == [4, 4, 8]
    assert handle.batches == [[2, 4], [2]]


async def test_item_times_out_while_waiting_and_while_handled() -> None:
    batcher = Batcher(Doubling(), most=1, seconds=0.05)
    async with contextlib.aclosing(batcher):
        for outcome in await asyncio.gather(*(batcher.call(item) for item in (2, 4)), return_exceptions=True):
            assert isinstance(outcome, TimeoutError)


async def test_who_waits_when_it_is_closed_is_cancelled() -> None:
    batcher = Batcher(Doubling(), most=1)
    waiting = [asyncio.create_task(batcher.call(item)) for item in (2, 4)]
    await asyncio.sleep(0)
    await batcher.aclose()
    assert all(
        isinstance(each, asyncio.CancelledError)
        for each in await asyncio.gather(*waiting, return_exceptions=True)
    )


@pytest.mark.parametrize("inline", [False, True])
async def test_closing_waits_for_the_call_under_way(inline: bool) -> None:
    handle = Doubling()
    batcher = Batcher(handle, inline=inline)
    waiting = asyncio.create_task(batcher.call(2))
    await handle.begun.wait()
    closing = asyncio.create_task(batcher.aclose(5.0))
    await asyncio.sleep(0)
    handle.goes_on.set()
    await closing
    assert await waiting == 4
