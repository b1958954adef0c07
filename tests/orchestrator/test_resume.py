"""What was already sent, read back from the frames that TRACES has kept."""

import hashlib

import pytest

from contracts import frames
from contracts.values import Usage
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Round
from orchestrator.run.interrupted_text import AlreadySent, already_sent

pytestmark = pytest.mark.requirement("RESUME", "FRAMES")


def _run(*recorded: str) -> Run:
    rounds = tuple(
        Round(number=number, text=text, blocks=(), usage=Usage()) for number, text in enumerate(recorded, 1)
    )
    return Run(
        trace_id="t",
        agent_id="a",
        user_message_id="m",
        user_text="",
        requested_at="",
        attempt=2,
        rounds=rounds,
    )


def _accepted() -> frames.Accepted:
    return frames.Accepted(seq=1, attempt=1, conversation_id="c")


def _said(seq: int, text: str, *, round_number: int = 1, attempt: int = 1) -> frames.Delta:
    return frames.Delta(seq=seq, attempt=attempt, round=round_number, text=text, offset=0)  # is not read


def _resumed(attempt: int, text: str) -> frames.Resumed:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return frames.Resumed(seq=1, attempt=attempt, conversation_id="c", offset=len(text), sha256=digest)


def test_nothing_kept_is_nothing_sent() -> None:
    assert already_sent(_run(), []) == AlreadySent()


def test_text_behind_what_is_recorded_was_sent_with_its_cuts() -> None:
    kept: list[frames.Frame] = [_accepted(), _said(2, "It "), frames.Alive(seq=3, attempt=1), _said(4, "has")]
    assert already_sent(_run(), kept) == AlreadySent(text="It has", cuts=(3, 6))


def test_recorded_rounds_are_not_sent_again() -> None:
    kept: list[frames.Frame] = [
        _accepted(),
        _said(2, "First. "),
        _said(3, "Sec", round_number=2),
        _said(4, "ond", round_number=2),
    ]
    assert already_sent(_run("First. "), kept) == AlreadySent(text="Second", cuts=(3, 6))
    assert already_sent(_run("First. ", "Second"), kept) == AlreadySent()


def test_nobody_can_say_what_was_in_a_gap() -> None:
    kept: list[frames.Frame] = [_accepted(), _said(2, "It "), _said(4, "shipped")]
    assert already_sent(_run(), kept).text == "It "


def test_a_lost_beginning_leaves_nothing_to_go_on_from() -> None:
    assert already_sent(_run(), [_said(2, "It "), _said(3, "has")]) == AlreadySent()


def test_an_overtaken_attempt_is_not_heard() -> None:
    kept: list[frames.Frame] = [
        _accepted(),
        _said(2, "It "),
        _resumed(2, "It "),
        _said(3, "HAS"),
        _said(2, "has", attempt=2),
    ]
    assert already_sent(_run(), kept) == AlreadySent(text="It has", cuts=(3, 6))


def test_an_attempt_that_knew_of_less_text_counts_from_there() -> None:
    kept: list[frames.Frame] = [
        _accepted(),
        _said(2, "It "),
        _said(3, "was"),
        _resumed(2, "It "),
        _said(2, "has", attempt=2),
    ]
    assert already_sent(_run(), kept).text == "It has"


def test_frames_that_contradict_the_log_are_not_believed() -> None:
    kept: list[frames.Frame] = [_accepted(), _said(2, "Something else")]
    assert already_sent(_run("First. "), kept) == AlreadySent()


def test_calls_and_results_that_were_announced_are_known() -> None:
    kept: list[frames.Frame] = [
        _accepted(),
        frames.ToolCalled(seq=2, attempt=1, call_id="a", name="find", input={}, round=1),
        frames.ToolCalled(seq=3, attempt=1, call_id="b", name="find", input={}, round=1),
        frames.ToolReturned(seq=4, attempt=1, call_id="a", is_error=False),
    ]
    already = already_sent(_run(), kept)
    assert set(already.called) == {"a", "b"}
    assert set(already.returned) == {"a"}


def test_sources_that_went_out_are_not_sent_again() -> None:
    found = frames.SourcesFound(seq=2, attempt=1, sources=())
    assert already_sent(_run(), [_accepted(), found]) == AlreadySent(sourced=True)
    assert already_sent(_run(), [found]) == AlreadySent()  # after a gap
