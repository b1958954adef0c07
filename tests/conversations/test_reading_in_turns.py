"""Large events are read some at a time."""

import asyncio

import pytest

from conversations.event_store.log import LogEntry
from conversations.event_store.turns import TURN_BYTES, in_turns

pytestmark = pytest.mark.requirement("STREAM-REPLAY-BOUND")


async def turns_between(size: int, count: int) -> int:
    """How many turns another task gets while so many rows of so many bytes are read."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    rows = [LogEntry(number, "c", number, "delta.v1", b" " * size) for number in range(1, count + 1)]
    task = asyncio.create_task(other())
    assert [row async for row in in_turns(rows)] == rows
    task.cancel()
    return turns


async def test_others_get_a_turn_between_large_events() -> None:
    assert await turns_between(TURN_BYTES, 6) == 6


async def test_small_events_are_read_in_one_turn() -> None:
    assert await turns_between(100, 1000) == 0
