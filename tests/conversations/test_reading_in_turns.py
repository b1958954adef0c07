"""Large events are read some at a time by one reader at a time, and a run in a bounded number of pieces."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from contracts.updates import Text
from conversations.aggregate.canonical_stream import MOST_PIECES, replayed, thinned
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Round
from conversations.event_store.log import Log, LogEntry
from conversations.event_store.turns import TURN_BYTES, in_turns
from tests.conversations.given import began, run_after, turn


def rows_of(size: int, count: int, account_id: str = "account") -> list[LogEntry]:
    numbers = range(1, count + 1)
    return [LogEntry(number, "c", number, "delta.v1", b" " * size, account_id) for number in numbers]


async def read(log: Log, rows: list[LogEntry], readers: int) -> list[str]:
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
async def test_others_get_a_turn_between_large_events(log: Log, readers: int) -> None:
    happened = await read(log, rows_of(TURN_BYTES, 6), readers)
    assert happened.count("r") == 6 * readers
    assert not any(pair == ("r", "r") for pair in itertools.pairwise(happened))


async def test_small_events_are_read_in_one_turn(log: Log) -> None:
    happened = "".join(await read(log, rows_of(100, 1000), 1))
    assert "r" * 1000 in happened


async def test_a_reader_that_is_cancelled_or_stops_early_lets_the_next_one_read(log: Log) -> None:
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


async def test_a_reader_of_another_account_waits_for_two_turns_at_most() -> None:
    happened: list[str | None] = []

    async def reader(account_id: str) -> None:
        async for row in in_turns(rows_of(TURN_BYTES, 4, account_id)):
            happened.append(row.account_id)  # noqa: PERF401 - in the order in which they come

    other = "other"
    await asyncio.gather(*(reader(each) for each in (*["one"] * 8, other)))
    places = [place for place, each in enumerate(happened) if each == other]
    assert len(happened) == 4 * 9
    # The one under way, and one that was waiting when it asked again.
    assert all(later - place <= 3 for place, later in itertools.pairwise(places))


def run_of(*lengths: int) -> Run:
    """A run with rounds of so many characters, each of which was sent alone."""
    rounds = tuple(
        Round(number=number, text="ab" * (length // 2), cuts=tuple(range(1, length)))
        for number, length in enumerate(lengths, start=1)
    )
    return replace(run_after(began(), *turn("a", "Hello", "Hi")), rounds=rounds)


def pieces_of(run: Run) -> list[str]:
    return [each.text for each in replayed(run) if isinstance(each, Text)]


@pytest.mark.parametrize("lengths", [(2,), (MOST_PIECES,), (MOST_PIECES * 30,), (60_000,) * 6, (2, 100_000)])
def test_a_run_is_read_again_whole_in_a_bounded_number_of_pieces(lengths: tuple[int, ...]) -> None:
    run = run_of(*lengths)
    pieces = pieces_of(run)
    assert "".join(pieces) == run.text
    assert len(pieces) <= MOST_PIECES + len(lengths)


def test_what_has_few_pieces_keeps_each() -> None:
    assert pieces_of(run_of(20, 20)) == ["a", "b"] * 20


def test_what_is_stored_of_a_round_is_bounded() -> None:
    assert thinned((1, 2, 3)) == (1, 2, 3)
    assert thinned(()) == ()
    many = thinned(range(1, 750_000))
    assert len(many) <= MOST_PIECES
    assert sorted(set(many)) == list(many)
