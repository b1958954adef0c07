"""The live view: given frames and the log, then updates, in order and to the end. No I/O."""

import pytest
from msgspec.structs import replace

from contracts import frames
from contracts.updates import (
    CANCELLED,
    INTERRUPTED,
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    Text,
    ToolEnded,
    ToolStarted,
)
from contracts.values import ToolCall
from conversations.aggregate.calls import Call
from conversations.aggregate.rounds import Round
from gateway.runs.view import View
from tests.gateway.live_frames import (
    ACCEPTED,
    SOURCE,
    alive,
    called,
    completed,
    delta,
    feed,
    message,
    returned,
    run,
)


@pytest.mark.requirement("STREAM-CONCAT", "CHAT-STREAM-FORM1")
def test_an_untroubled_run_is_told_as_it_happens() -> None:
    found = frames.SourcesFound(seq=2, attempt=1, sources=(SOURCE,))
    view = View()
    told = feed(
        view,
        frames.Queued(seq=0, attempt=0),
        ACCEPTED,
        found,
        delta(3, "He", 0),
        called(4),
        returned(5),
        alive(6),
        delta(7, "llo", 2),
        completed(8, "Hello", tool_calls=1),
    )
    assert view.wants_log, "it has the tools' outputs"
    call = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1}, output="{}")
    rounds = (Round(number=1, text="He", calls=(call,)), Round(number=2, text="llo"))
    told += view.feed_log(run(state="completed", reply=message("Hello"), rounds=rounds))
    assert told == [
        Started(),
        RetrievedSources((SOURCE,)),
        Text("He"),
        ToolStarted("call", "find", {"q": 1}),
        ToolEnded("call", is_error=False),
        Text("llo"),
        Finished(message("Hello"), (ToolCall(name="find", input={"q": 1}, output="{}"),)),
    ]


@pytest.mark.requirement("STREAM-CONCAT")
def test_rounds_and_results_are_told_alike_live_and_out_of_the_log() -> None:
    def piece(seq: int, number: int, text: str, offset: int) -> frames.Delta:
        return frames.Delta(seq=seq, attempt=1, round=number, text=text, offset=offset)

    def asked(seq: int, number: int, call_id: str) -> frames.ToolCalled:
        return frames.ToolCalled(seq=seq, attempt=1, call_id=call_id, name="find", input={}, round=number)

    def call(call_id: str) -> Call:
        return Call(call_id=call_id, at="2026-11-21T09:30:00.000000Z", name="find", input={}, output="1")

    rounds = (
        Round(number=1, text="a", calls=(call("x"),)),
        Round(number=2, calls=(call("y"),)),
        Round(number=3, text="bc", cuts=(1,)),
    )
    ended = run(state="completed", reply=message("abc"), rounds=rounds)
    live = View()
    told = feed(
        live,
        *(ACCEPTED, piece(2, 1, "a", 0), asked(3, 1, "x"), returned(4, "x"), returned(4, "x")),
        *(asked(5, 2, "y"), returned(6, "y"), piece(7, 3, "b", 1), piece(8, 3, "c", 2)),
        completed(9, "abc", tool_calls=2),
    )
    told += live.feed_log(ended)
    results = {update.call_id: update.output for update in told if isinstance(update, ToolEnded)}
    assert results == {"x": None, "y": None}, "frames hold no outputs"
    known = [replace(each, output="1") if isinstance(each, ToolEnded) else each for each in told]
    assert known == View().feed_log(ended)
    assert [update.number for update in known if isinstance(update, NextRound)] == [2, 3]


@pytest.mark.requirement("STREAM-CONCAT")
def test_a_saved_message_that_is_not_what_was_told_ends_in_error() -> None:
    assert feed(View(), ACCEPTED, delta(2, "He", 0), completed(3, "Ha!"))[-1] == INTERRUPTED
    assert feed(View(), ACCEPTED, delta(2, "Hello", 0), completed(3, "He"))[-1] == INTERRUPTED


@pytest.mark.requirement("REANNOUNCE")
def test_a_result_announced_again_is_taken_without_a_number() -> None:
    again = frames.Completed(seq=0, attempt=1, message=message("Hello"), tool_calls=0)
    assert feed(View(), ACCEPTED, delta(2, "He", 0), again)[-2:] == [
        Text("llo"),
        Finished(message("Hello"), ()),
    ]
    assert feed(View(), again) == [Started(), Text("Hello"), Finished(message("Hello"), ())]


@pytest.mark.requirement("STREAM-ERROR")
def test_nothing_is_told_after_the_end() -> None:
    view = View()
    failed = frames.Failed(seq=2, attempt=1, code="provider_error", message="no")
    assert feed(view, ACCEPTED, failed, delta(3, "a", 0), completed(4, "a")) == [
        Started(),
        Broken("provider_error", "no"),
    ]
    assert view.feed_log(run(state="completed", reply=message("a"))) == view.feed_all([ACCEPTED]) == []


@pytest.mark.requirement("IDEMPOTENCY", "STREAM-CONCAT")
@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_that_ended_before_anything_was_told_is_told_as_it_was_sent(streaming: bool) -> None:
    call = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1}, output="{}")
    rounds = (
        Round(number=1, text="Let me see.", cuts=(3, 11), calls=(call,)),
        Round(number=2, text="Done", cuts=(4,)),
    )
    ended = run(
        state="completed", reply=message("Let me see.Done"), rounds=rounds, sources=(SOURCE,), retrieves=True
    )
    view = View(streaming=streaming)
    told = view.feed_log(ended)
    assert [update for update in told if not isinstance(update, Text)] == [
        Started(),
        RetrievedSources((SOURCE,)),
        ToolStarted("call", "find", {"q": 1}),
        ToolEnded("call", is_error=False, output="{}"),
        NextRound(2),
        Finished(message("Let me see.Done"), (ToolCall(name="find", input={"q": 1}, output="{}"),)),
    ]
    pieces = [update.text for update in told if isinstance(update, Text)]
    assert pieces == (["Let", " me see.", "Done"] if streaming else [])
    assert view.started
    assert view.ended
    assert not view.refused


@pytest.mark.requirement("IDEMPOTENCY", "CANCEL-HTTP")
def test_a_cancelled_run_is_told_from_the_log_in_the_words_of_its_worker() -> None:
    cancelled = run(state="cancelled", code="cancelled", rounds=(Round(number=1, text="He", cuts=(2,)),))
    assert View().feed_log(cancelled) == [Started(), Text("He"), CANCELLED]
    live = View()
    feed(live, ACCEPTED, delta(2, "He", 0))
    assert live.feed_log(cancelled) == [CANCELLED]


@pytest.mark.requirement("ERASE")
def test_a_run_of_an_erased_conversation_ends() -> None:
    live, new = View(), View()
    feed(live, ACCEPTED)
    assert live.feed_erased() == [CANCELLED]
    assert [update.code for update in new.feed_erased() if isinstance(update, Broken)] == [
        "conversation_not_found"
    ]
    assert live.feed_erased() == []
