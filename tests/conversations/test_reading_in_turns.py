"""Large events are read some at a time, by one reader at a time."""

import asyncio
import itertools
from collections.abc import Callable

import pytest

from conversations.event_store.log import LogEntry
from conversations.event_store.turns import TURN_BYTES, in_turns

pytestmark = pytest.mark.requirement("STREAM-REPLAY-BOUND")


def rows_of(size: int, count: int) -> list[LogEntry]:
    return [LogEntry(number, "c", number, "delta.v1", b" " * size) for number in range(1, count + 1)]


async def read(rows: list[LogEntry], readers: int) -> list[str]:
    """What happens in which order: `r` where a row is read, `o` where another task has a turn."""
    happened: list[str] = []

    async def reader() -> list[LogEntry]:
        found = []
        async for row in in_turns(rows):
            happened.append("r")
            found.append(row)
        return found

    async def other() -> None:
        while True:
            happened.append("o")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await asyncio.gather(*(reader() for _ in range(readers))) == [rows] * readers
    task.cancel()
    return happened


@pytest.mark.parametrize("readers", [1, 4])
async def test_others_get_a_turn_between_large_events(readers: int) -> None:
    happened = await read(rows_of(TURN_BYTES, 6), readers)
    assert happened.count("r") == 6 * readers
    assert not any(pair == ("r", "r") for pair in itertools.pairwise(happened))


async def test_small_events_are_read_in_one_turn() -> None:
    happened = "".join(await read(rows_of(100, 1000), 1))
    assert "r" * 1000 in happened


async def test_a_reader_that_is_cancelled_or_stops_early_lets_the_next_one_read() -> None:
    rows = rows_of(TURN_BYTES, 3)

    async def stuck(until: Callable[[], object]) -> None:
        async for _ in in_turns(rows):
            until()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    task = asyncio.create_task(stuck(begun.set))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    async with asyncio.timeout(5):
        assert [row async for row in in_turns(rows)] == rows
