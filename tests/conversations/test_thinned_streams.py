"""Large events leave the loop to others, and a run is read again in a bounded number of pieces."""

import asyncio

import pytest
from msgspec.structs import replace

from agentchat.contracts.updates import TextUpdate
from agentchat.conversations.aggregate.canonical_stream import MOST_PIECES, replay_updates, thin_cuts
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Round
from agentchat.conversations.event_store.event_log import TURN_BYTES, LogEntry, iterate_in_turns
from tests.conversations.given import build_conversation_started, run_after, turn


async def test_others_get_a_turn_between_large_events() -> None:
    rows = [LogEntry(number, "c", number, "delta.v1", b" " * TURN_BYTES) for number in range(6)]
    happened: list[str] = []

    async def build_other() -> None:
        while True:
            happened.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(build_other())
    async for _ in iterate_in_turns(rows):
        happened.append("row")  # noqa: PERF401 - in the order in which they come
    task.cancel()
    assert happened.count("row") == 6
    assert happened.count("other") >= 5


def run_of(*lengths: int) -> Run:
    """A run with rounds of so many characters, each of which was sent alone."""
    rounds = tuple(
        Round(number=number, text="ab" * (length // 2), cuts=tuple(range(1, length)))
        for number, length in enumerate(lengths, start=1)
    )
    return replace(run_after(build_conversation_started(), *turn("a", "Hello", "Hi")), rounds=rounds)


def count_pieces(run: Run) -> list[str]:
    return [each.text for each in replay_updates(run) if isinstance(each, TextUpdate)]


@pytest.mark.parametrize("lengths", [(2,), (MOST_PIECES,), (MOST_PIECES * 30,), (60_000,) * 6, (2, 100_000)])
def test_a_run_is_read_again_whole_in_a_bounded_number_of_pieces(lengths: tuple[int, ...]) -> None:
    run = run_of(*lengths)
    pieces = count_pieces(run)
    assert "".join(pieces) == run.text
    assert len(pieces) <= MOST_PIECES + len(lengths)


def test_what_is_stored_of_a_round_is_bounded() -> None:
    assert thin_cuts((1, 2, 3)) == (1, 2, 3)
    assert thin_cuts(()) == ()
    many = thin_cuts(range(1, 750_000))
    assert len(many) <= MOST_PIECES
    assert sorted(set(many)) == list(many)
