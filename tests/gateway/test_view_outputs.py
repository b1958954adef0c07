"""The live view of a reader who is told outputs: each return comes with its output, and none is lost."""

import pytest
from msgspec.structs import replace

from agentchat.contracts import frames
from agentchat.contracts.updates import (
    Finished,
    Started,
    TextUpdate,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    WarningUpdate,
)
from agentchat.contracts.values import FinishedCall, RunWarning
from agentchat.conversations.aggregate.rounds import Call, Round
from agentchat.gateway.runs.frames_to_updates import View
from agentchat.gateway.runs.run_request import STREAM, ViewKind
from agentchat.gateway.runs.sent_updates import CallOrder
from tests.gateway.live_frames import (
    ACCEPTED,
    SOURCE,
    feed,
    make_called,
    make_completed,
    make_delta,
    make_message,
    make_returned,
    run,
)

CALLED = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1})
RETURNED = replace(CALLED, output="[1]")
STARTED = ToolStarted("call", "find", {"q": 1})
TOLD = ToolEnded("call", is_error=False, output="[1]")


def log_events(*calls: Call) -> list[Round]:
    return [Round(number=1, text="He", calls=calls)]


def test_a_tool_result_is_sent_once_the_log_has_its_output() -> None:
    view = View(ViewKind(outputs=True))
    told = feed(view, ACCEPTED, make_delta(2, "He", 0), make_called(3), make_returned(4))
    assert (told, view.wants_log) == ([Started(), TextUpdate("He"), STARTED], True)
    told = view.feed_log(run(rounds=tuple(log_events(CALLED))))
    assert (told, view.wants_log) == ([], True), "what was read was of before the return"
    told = view.feed_log(run(rounds=tuple(log_events(RETURNED))))
    assert (told, view.wants_log) == ([TOLD], False)
    told = feed(view, make_returned(5), make_delta(6, "llo", 2))
    assert (told, view.wants_log) == ([TextUpdate("llo")], False), "it is told once"
    assert feed(view, make_completed(7, "Hello", tool_calls=1))[-1] == Finished(
        make_message("Hello"),
        (FinishedCall(name="find", input={"q": 1}, output="[1]", id="call", is_error=False),),
    )


@pytest.mark.parametrize("lost", [False, True])
def test_an_end_without_calls_does_not_wait_for_the_log(lost: bool) -> None:
    view = View(ViewKind(calls_at_end=False))
    said = (
        ACCEPTED,
        make_delta(2, "He", 0),
        make_called(3),
        make_returned(4),
        make_completed(5, "He", tool_calls=1),
    )
    told = view.feed_all(said) if lost else feed(view, *said)
    assert told[-1] == Finished(make_message("He"), ())
    assert (view.ended, view.wants_log) == (True, False)


def test_what_traces_repeat_is_told_with_outputs_too() -> None:
    view = View(ViewKind(outputs=True))
    said = (ACCEPTED, make_delta(2, "He", 0), make_called(3), make_returned(4), make_delta(5, "llo", 2))
    assert view.feed_all(said) == [Started(), TextUpdate("He"), STARTED, TextUpdate("llo")]
    assert view.wants_log
    assert view.feed_log(run(rounds=tuple(log_events(RETURNED)))) == [TOLD]


@pytest.mark.parametrize("missed", [False, True])
def test_the_end_has_the_sources_even_if_their_frame_was_missed(missed: bool) -> None:
    view = View(ViewKind(streaming=False))
    found = () if missed else (frames.SourcesFound(seq=2, attempt=1, sources=(SOURCE,)),)
    told = feed(view, ACCEPTED, *found, make_completed(3, "It is. [1]", is_sourced=True))
    if missed:
        assert (told, view.wants_log) == ([Started()], True)
        reply = make_message("It is. [1]")
        told = view.feed_log(run(state="completed", reply=reply, sources=(SOURCE,)))
    assert told[-1] == Finished(make_message("It is. [1]"), (), sources=(SOURCE,))


def test_a_warning_is_sent_once_even_if_repeated() -> None:
    warning = RunWarning(code="tool_server_unavailable", subject="crm", message="It is away.")
    view = View(ViewKind(outputs=True))
    told = feed(view, ACCEPTED, frames.WarningFrame(seq=2, attempt=1, warning=warning))
    told += feed(view, frames.WarningFrame(seq=3, attempt=1, warning=warning))
    told += view.feed_log(run(warnings=(warning,), warned_behind=(0,)))
    assert told == [Started(), WarningUpdate(warning)]


def test_growing_progress_of_a_running_call_is_sent() -> None:
    def report(progress: float) -> frames.ToolProgressFrame:
        return frames.ToolProgressFrame(seq=0, attempt=0, call_id="call", progress=progress)

    view = View(ViewKind(outputs=True))
    assert feed(view, ACCEPTED, report(1)) == [Started()], "it is not running yet"
    told = feed(view, make_called(2), report(1), report(1), report(3), report(2), make_returned(3), report(4))
    assert told == [STARTED, ToolProgressed("call", 1), ToolProgressed("call", 3)]
    assert feed(View(STREAM), ACCEPTED, make_called(2), report(1)) == [Started(), STARTED]


def test_progress_waits_for_no_other_call() -> None:
    order, other = CallOrder(), ToolStarted("other", "find", {})
    assert order.add([STARTED, other, ToolEnded("other", is_error=False)]) == [STARTED, other]
    assert order.add([ToolProgressed("call", 1)]) == [ToolProgressed("call", 1)]
