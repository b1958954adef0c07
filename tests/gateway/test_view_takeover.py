"""The live view when another worker takes the run over: it resumes after the text told, or it ends."""

import pytest

from contracts import frames
from contracts.updates import (
    INTERRUPTED,
    Finished,
    Started,
    Text,
)
from gateway.runs.view import View
from tests.gateway.live_frames import ACCEPTED, completed, delta, feed, message, resumed, text_of


@pytest.mark.requirement("STREAM-REPAIR", "STREAM-TAKEOVER")
def test_an_offset_means_nothing_in_an_attempt_whose_beginning_was_lost() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "He", 0), delta(2, "xx", 1, 2))
    told += view.feed_all([])
    told += feed(view, delta(3, "yy", 2, 2))
    assert text_of(told) == "He"
    assert feed(view, completed(4, "Hxxyy", attempt=2)) == [INTERRUPTED]


@pytest.mark.requirement("STREAM-TAKEOVER")
def test_a_takeover_behind_the_text_told_goes_on() -> None:
    told = feed(
        View(), ACCEPTED, delta(2, "He", 0), resumed(2, "He"), delta(2, "llo", 2, 2), completed(3, "Hello")
    )
    assert text_of(told) == "Hello"
    told = feed(
        View(),
        ACCEPTED,
        delta(2, "He", 0),
        resumed(2, "He"),
        delta(2, "llo", 2, 2),
        completed(3, "Hello", attempt=2),
    )
    assert [*map(type, told)] == [Started, Text, Text, Finished]


@pytest.mark.requirement("STREAM-TAKEOVER")
@pytest.mark.parametrize("text", ["H", "Ho", ""])
def test_a_takeover_behind_another_text_ends_the_stream(text: str) -> None:
    told = feed(View(), ACCEPTED, delta(2, "He", 0), resumed(2, text), delta(2, "llo", len(text), 2))
    assert told == [Started(), Text("He"), INTERRUPTED]


@pytest.mark.requirement("STREAM-TAKEOVER", "STREAM-REPAIR")
def test_a_takeover_behind_more_than_was_told_is_repaired() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "He", 0), resumed(2, "Hell"), delta(2, "o", 4, 2))
    assert told == [Started(), Text("He")]
    assert view.wants_repair
    told += view.feed_all(
        [ACCEPTED, delta(2, "He", 0), delta(3, "ll", 2), resumed(2, "Hell"), delta(2, "o", 4, 2)]
    )
    told += feed(view, delta(3, "!", 5, 2), completed(4, "Hello!", attempt=2))
    assert [update.text for update in told if isinstance(update, Text)] == ["He", "ll", "o", "!"]


@pytest.mark.requirement("STREAM-TAKEOVER")
def test_frames_of_a_stopped_worker_are_ignored() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "He", 0), resumed(2, "He"), delta(3, "XX", 2), completed(4, "HeXX"))
    assert told == [Started(), Text("He")]
    assert feed(view, delta(2, "y", 2, 2)) == [Text("y")]


@pytest.mark.requirement("STREAM-TAKEOVER", "ACCEPTED-FIRST")
def test_a_takeover_that_is_heard_first_is_the_acceptance() -> None:
    assert feed(View(), resumed(2, ""), delta(2, "a", 0, 2)) == [Started(), Text("a")]


@pytest.mark.requirement("CHAT-JSON", "STREAM-TAKEOVER")
def test_a_reader_of_the_end_alone_is_not_broken_by_what_it_was_not_told() -> None:
    view = View(streaming=False)
    told = feed(
        view, ACCEPTED, delta(2, "He", 0), delta(5, "x", 2), resumed(3, "other"), completed(9, "Hello")
    )
    assert told == [Started()]
    again = frames.Completed(seq=9, attempt=3, message=message("Hello"), tool_calls=0)
    assert feed(view, again) == [Finished(message("Hello"), ())]
    assert not view.wants_repair
