"""The live view: given frames and the log, then updates, in order and to the end. No I/O."""

import pytest
from msgspec.structs import replace

from agentchat.contracts import frames
from agentchat.contracts.updates import (
    CANCELLED,
    INTERRUPTED,
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolStarted,
)
from agentchat.contracts.values import FinishedCall
from agentchat.conversations.aggregate.rounds import Call, Round
from agentchat.gateway.runs.frames_to_updates import View
from agentchat.gateway.runs.run_request import ViewKind
from agentchat.gateway.runs.sent_updates import Phase
from tests.gateway.live_frames import (
    ACCEPTED,
    SOURCE,
    feed,
    join_text,
    make_alive,
    make_called,
    make_completed,
    make_delta,
    make_message,
    make_resumed,
    make_returned,
    run,
)


def test_an_undisturbed_run_is_streamed_live() -> None:
    found = frames.SourcesFound(seq=2, attempt=1, sources=(SOURCE,))
    view = View()
    told = feed(
        view,
        frames.Queued(seq=0, attempt=0),
        ACCEPTED,
        found,
        make_delta(3, "He", 0),
        make_called(4),
        make_returned(5),
        make_alive(6),
        make_delta(7, "llo", 2),
        make_completed(8, "Hello", tool_calls=1),
    )
    assert view.wants_log, "it has the tools' outputs"
    call = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1}, output="{}")
    rounds = (Round(number=1, text="He", calls=(call,)), Round(number=2, text="llo"))
    told += view.feed_log(run(state="completed", reply=make_message("Hello"), rounds=rounds))
    assert told == [
        Started(),
        RetrievedSources((SOURCE,)),
        TextUpdate("He"),
        ToolStarted("call", "find", {"q": 1}),
        ToolEnded("call", is_error=False),
        TextUpdate("llo"),
        Finished(
            make_message("Hello"),
            (FinishedCall(name="find", input={"q": 1}, output="{}", id="call", is_error=False),),
            sources=(SOURCE,),
        ),
    ]


def test_a_started_run_that_is_missing_from_the_log_was_lost() -> None:
    view = View()
    assert view.feed_log(None) == [], "it may begin yet"
    assert feed(view, ACCEPTED, make_delta(2, "He", 0)) == [Started(), TextUpdate("He")]
    assert view.feed_log(None) == [INTERRUPTED]
    assert view.ended


def test_rounds_and_results_are_equal_live_and_from_the_log() -> None:
    def piece(seq: int, number: int, text: str, offset: int) -> frames.DeltaFrame:
        return frames.DeltaFrame(seq=seq, attempt=1, round=number, text=text, offset=offset)

    def call_tool(seq: int, number: int, call_id: str) -> frames.ToolCalledFrame:
        return frames.ToolCalledFrame(
            seq=seq, attempt=1, call_id=call_id, name="find", input={}, round=number
        )

    def call(call_id: str) -> Call:
        return Call(call_id=call_id, at="2026-11-21T09:30:00.000000Z", name="find", input={}, output="1")

    rounds = (
        Round(number=1, text="a", calls=(call("x"),)),
        Round(number=2, calls=(call("y"),)),
        Round(number=3, text="bc", cuts=(1,)),
    )
    ended = run(state="completed", reply=make_message("abc"), rounds=rounds)
    live = View()
    told = feed(
        live,
        *(ACCEPTED, piece(2, 1, "a", 0), call_tool(3, 1, "x"), make_returned(4, "x"), make_returned(4, "x")),
        *(call_tool(5, 2, "y"), make_returned(6, "y"), piece(7, 3, "b", 1), piece(8, 3, "c", 2)),
        make_completed(9, "abc", tool_calls=2),
    )
    told += live.feed_log(ended)
    results = {update.call_id: update.output for update in told if isinstance(update, ToolEnded)}
    assert results == {"x": None, "y": None}, "frames hold no outputs"
    known = [replace(each, output="1") if isinstance(each, ToolEnded) else each for each in told]
    assert known == View().feed_log(ended)
    assert [update.number for update in known if isinstance(update, NextRound)] == [2, 3]


def test_a_saved_message_unlike_the_streamed_one_ends_in_error() -> None:
    assert feed(View(), ACCEPTED, make_delta(2, "He", 0), make_completed(3, "Ha!"))[-1] == INTERRUPTED
    assert feed(View(), ACCEPTED, make_delta(2, "Hello", 0), make_completed(3, "He"))[-1] == INTERRUPTED


def test_a_result_announced_again_is_taken_without_a_number() -> None:
    again = frames.Completed(seq=0, attempt=1, message=make_message("Hello"), tool_calls=0)
    assert feed(View(), ACCEPTED, make_delta(2, "He", 0), again)[-2:] == [
        TextUpdate("llo"),
        Finished(make_message("Hello"), ()),
    ]
    assert feed(View(), again) == [Started(), TextUpdate("Hello"), Finished(make_message("Hello"), ())]


def test_nothing_is_sent_after_the_end() -> None:
    view = View()
    failed = frames.Failed(seq=2, attempt=1, code="provider_error", message="no")
    assert feed(view, ACCEPTED, failed, make_delta(3, "a", 0), make_completed(4, "a")) == [
        Started(),
        Broken("provider_error", "no"),
    ]
    assert view.feed_log(run(state="completed", reply=make_message("a"))) == view.feed_all([ACCEPTED]) == []


@pytest.mark.parametrize("streaming", [True, False])
def test_run_ended_before_first_update_is_sent_in_full(streaming: bool) -> None:
    call = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1}, output="{}")
    rounds = (
        Round(number=1, text="Let me see.", cuts=(3, 11), calls=(call,)),
        Round(number=2, text="Done", cuts=(4,)),
    )
    ended = run(
        state="completed",
        reply=make_message("Let me see.Done"),
        rounds=rounds,
        sources=(SOURCE,),
        retrieves=True,
    )
    view = View(ViewKind(streaming=streaming))
    told = view.feed_log(ended)
    assert [update for update in told if not isinstance(update, TextUpdate)] == [
        Started(),
        RetrievedSources((SOURCE,)),
        ToolStarted("call", "find", {"q": 1}),
        ToolEnded("call", is_error=False, output="{}"),
        NextRound(2),
        Finished(
            make_message("Let me see.Done"),
            (FinishedCall(name="find", input={"q": 1}, output="{}", id="call", is_error=False),),
            sources=(SOURCE,),
        ),
    ]
    pieces = [update.text for update in told if isinstance(update, TextUpdate)]
    assert pieces == (["Let", " me see.", "Done"] if streaming else [])
    assert view.started
    assert view.ended
    assert view.phase is not Phase.REFUSED


def test_a_run_of_an_erased_conversation_ends() -> None:
    live, new = View(), View()
    feed(live, ACCEPTED)
    assert live.feed_erased() == [CANCELLED]
    assert [update.code for update in new.feed_erased() if isinstance(update, Broken)] == [
        "conversation_not_found"
    ]
    assert live.feed_erased() == []


def test_a_refusal_counts_only_before_the_start() -> None:
    refused = frames.Refused(seq=0, attempt=0, code="conversation_busy", message="busy")
    assert feed(View(), refused) == [Broken("conversation_busy", "busy")]
    assert feed(View(), ACCEPTED, refused) == [Started()]


def test_a_refusal_of_an_earlier_publication_does_not_count() -> None:
    earlier, later = (
        frames.Refused(seq=0, attempt=attempt, code="overloaded", message="late") for attempt in (1, 2)
    )
    view = View(publication=2)
    assert feed(view, earlier) == []
    assert view.feed_all([earlier, later]) == [Broken("overloaded", "late")]
    assert view.phase is Phase.REFUSED


@pytest.mark.parametrize("attempt", [0, 2])
def test_a_place_in_line_that_was_not_heard_of_is_read_back(attempt: int) -> None:
    view = View(publication=2)
    assert view.feed_all([frames.Queued(seq=0, attempt=attempt)]) == []
    assert view.phase is Phase.QUEUED
    assert view.feed_all([frames.Queued(seq=0, attempt=attempt), ACCEPTED]) == [Started()]
    assert view.phase is not Phase.QUEUED


def test_a_place_in_line_of_an_earlier_publication_does_not_count() -> None:
    earlier = frames.Queued(seq=0, attempt=1)
    view = View(publication=2)
    assert feed(view, earlier) == []
    assert view.feed_all([earlier]) == []
    assert view.phase is not Phase.QUEUED


def test_offset_is_ignored_in_attempt_without_its_beginning() -> None:
    view = View()
    told = feed(view, ACCEPTED, make_delta(2, "He", 0), make_delta(2, "xx", 1, 2))
    told += view.feed_all([])
    told += feed(view, make_delta(3, "yy", 2, 2))
    assert join_text(told) == "He"
    assert feed(view, make_completed(4, "Hxxyy", attempt=2)) == [INTERRUPTED]


@pytest.mark.parametrize("text", ["H", "Ho", ""])
def test_a_takeover_after_another_text_ends_the_stream(text: str) -> None:
    told = feed(
        View(), ACCEPTED, make_delta(2, "He", 0), make_resumed(2, text), make_delta(2, "llo", len(text), 2)
    )
    assert told == [Started(), TextUpdate("He"), INTERRUPTED]


def test_a_takeover_after_more_than_was_sent_is_repaired() -> None:
    view = View()
    told = feed(view, ACCEPTED, make_delta(2, "He", 0), make_resumed(2, "Hell"), make_delta(2, "o", 4, 2))
    assert told == [Started(), TextUpdate("He")]
    assert view.wants_repair
    told += view.feed_all(
        [
            ACCEPTED,
            make_delta(2, "He", 0),
            make_delta(3, "ll", 2),
            make_resumed(2, "Hell"),
            make_delta(2, "o", 4, 2),
        ]
    )
    told += feed(view, make_delta(3, "!", 5, 2), make_completed(4, "Hello!", attempt=2))
    assert [update.text for update in told if isinstance(update, TextUpdate)] == ["He", "ll", "o", "!"]


def test_reader_of_end_only_tolerates_unseen_updates() -> None:
    view = View(ViewKind(streaming=False))
    told = feed(
        view,
        ACCEPTED,
        make_delta(2, "He", 0),
        make_delta(5, "x", 2),
        make_resumed(3, "other"),
        make_completed(9, "Hello"),
    )
    assert told == [Started()]
    again = frames.Completed(seq=9, attempt=3, message=make_message("Hello"), tool_calls=0)
    assert feed(view, again) == [Finished(make_message("Hello"), ())]
    assert not view.wants_repair
