"""The live view repairs gaps: frames that are doubled, late or lost, out of TRACES and the log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentchat.contracts import frames
from agentchat.contracts.updates import (
    INTERRUPTED,
    Finished,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolStarted,
)
from agentchat.conversations.aggregate.rounds import Round
from agentchat.gateway.runs.frames_to_updates import View
from tests.gateway.live_frames import (
    ACCEPTED,
    SOURCE,
    feed,
    join_text,
    make_called,
    make_completed,
    make_delta,
    make_message,
    make_resumed,
    run,
)

PIECES = st.lists(st.text(min_size=1, max_size=3), max_size=12)


def test_a_gap_is_filled_from_traces() -> None:
    view = View()
    told = feed(view, ACCEPTED, make_delta(2, "a", 0), make_delta(5, "d", 2))
    told += view.feed_all(
        [
            ACCEPTED,
            make_delta(2, "a", 0),
            make_called(3),
            make_delta(4, "c", 1),
            make_delta(5, "d", 2),
            make_delta(6, "e", 3),
        ]
    )
    told += feed(view, make_delta(6, "e", 3), make_delta(7, "f", 4), make_completed(8, "acdef"))
    assert join_text(told) == "acdef"
    assert isinstance(told[-1], Finished)
    assert not view.wants_repair
    assert [type(update) for update in told].count(ToolStarted) == 1


@pytest.mark.parametrize("traces", [None, [ACCEPTED]], ids=["while TRACES is asked", "after it had nothing"])
def test_text_that_was_lost_comes_with_its_repetition(traces: list[frames.Frame] | None) -> None:
    view = View()
    told = feed(view, ACCEPTED, make_delta(2, "a", 0), make_delta(4, "c", 2), make_delta(5, "d", 3))
    told += [] if traces is None else view.feed_all(traces)
    assert join_text(told) == "a"
    told += feed(view, make_delta(0, "abcd", 0), make_delta(6, "e", 4))
    assert join_text(told) == "abcde"
    assert not view.misses_text
    assert not view.wants_repair


@pytest.mark.parametrize(
    "repeated",
    [
        make_delta(0, "cd", 2),
        make_delta(0, "abcd", 0, attempt=2),
        frames.DeltaFrame(seq=0, attempt=1, round=2, text="abcd", offset=0),
    ],
    ids=["it begins after the gap", "of another attempt", "of another round"],
)
def test_a_repetition_that_does_not_fit_changes_nothing(repeated: frames.DeltaFrame) -> None:
    view = View()
    feed(view, ACCEPTED, make_delta(2, "a", 0), make_delta(4, "c", 2))
    assert feed(view, repeated) == []
    assert feed(view, make_delta(3, "b", 1)) == [TextUpdate("b"), TextUpdate("c")]


def test_repetition_inside_gap_is_taken_and_rest_is_missing() -> None:
    view = View()
    told = feed(view, ACCEPTED, make_delta(2, "a", 0), make_delta(5, "d", 3), make_delta(0, "ab", 0))
    assert join_text(told) == "ab"
    assert view.misses_text
    assert join_text(feed(view, make_delta(0, "abcd", 0))) == "cd"


def test_a_repetition_is_not_taken_before_what_comes_before_the_text() -> None:
    view = View()
    assert feed(view, make_delta(3, "a", 0), make_delta(0, "a", 0)) == []
    assert feed(view, ACCEPTED, frames.SourcesFound(seq=2, attempt=1, sources=(SOURCE,))) == [
        Started(),
        RetrievedSources((SOURCE,)),
        TextUpdate("a"),
    ]


def test_who_misses_nothing_takes_nothing_of_a_repetition() -> None:
    view = View()
    feed(view, ACCEPTED, make_delta(2, "a", 0))
    assert feed(view, make_delta(0, "ab", 0)) == []
    assert feed(view, make_delta(3, "b", 1)) == [TextUpdate("b")]


def test_what_not_even_traces_have_comes_with_the_saved_message() -> None:
    view = View()
    told = feed(view, ACCEPTED, make_delta(2, "a", 0), make_delta(4, "c", 2))
    told += view.feed_all([make_delta(4, "c", 2), make_delta(5, "d", 3)])
    assert view.wants_log
    told += feed(view, make_delta(5, "d", 3), make_delta(6, "e", 4))
    assert join_text(told) == "a"
    told += feed(view, make_completed(7, "abcde"))
    assert told[-2:] == [TextUpdate("bcde"), Finished(make_message("abcde"), ())]


def test_lost_frames_without_text_do_not_stop_live_text() -> None:
    view = View()
    told = feed(view, ACCEPTED, make_delta(2, "a", 0), make_delta(5, "b", 1))
    told += view.feed_all([])
    told += feed(view, make_delta(6, "c", 2))
    assert join_text(told) == "abc"
    assert not view.misses_text


def test_text_is_not_taken_from_the_log_while_frames_bring_it() -> None:
    view = View()
    feed(view, ACCEPTED, make_delta(2, "a", 0))
    assert view.feed_log(run(rounds=(Round(number=1, text="abc"),))) == []
    assert feed(view, make_delta(3, "b", 1)) == [TextUpdate("b")]


@settings(max_examples=120)
@given(pieces=PIECES, data=st.data())
def test_any_loss_still_gives_a_prefix_that_ends_as_the_reply(pieces: list[str], data: st.DataObject) -> None:
    """Frames are lost, doubled, swapped and kept or not kept by TRACES; a worker may be replaced."""
    content = "".join(pieces)
    script: list[frames.Frame] = [ACCEPTED]
    cut = data.draw(st.integers(0, len(pieces) * 2), label="takeover before piece")
    attempt, seq, said = 1, 1, ""
    for number, piece in enumerate(pieces):
        if number == cut:
            attempt, seq = 2, 1
            script.append(make_resumed(2, said))
        seq += 1
        script.append(make_delta(seq, piece, len(said), attempt))
        said += piece
    script.append(make_completed(seq + 1, content, attempt=attempt))
    kept = [frame for frame in script if data.draw(st.booleans(), label="kept by TRACES")]
    live: list[frames.Frame] = []
    for frame in script[:-1]:
        live += [frame] * data.draw(st.sampled_from([0, 1, 1, 1, 1, 2]), label="times heard")
    for place in data.draw(st.lists(st.integers(0, max(0, len(live) - 2)), max_size=3), label="swaps"):
        live[place : place + 2] = live[place : place + 2][::-1]
    view, told = View(), []
    for frame in [*live, script[-1]]:
        told += view.feed(frame)
        if not view.ended and data.draw(st.integers(0, 5), label="repair") == 0:
            told += view.feed_all(kept[: data.draw(st.integers(0, len(kept)), label="up to")])
        if not view.ended and data.draw(st.integers(0, 5), label="look in the log") == 0:
            stored = content[: data.draw(st.integers(0, len(content)), label="stored")]
            told += view.feed_log(run(rounds=(Round(number=1, text=stored),)))
        assert content.startswith(join_text(told))
    assert view.ended
    if isinstance(told[-1], Finished):
        assert join_text(told) == content
    else:
        assert told[-1] == INTERRUPTED
    assert [type(update) for update in told].count(Started) == 1
