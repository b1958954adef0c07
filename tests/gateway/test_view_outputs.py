"""The live view of a reader who is told outputs: each return comes with its output, and none is lost."""

import pytest
from msgspec.structs import replace

from agentchat.contracts.updates import Finished, Started, TextUpdate, ToolEnded, ToolStarted
from agentchat.contracts.values import ToolCall
from agentchat.conversations.aggregate.rounds import Call, Round
from agentchat.gateway.runs.run_request import ViewKind
from agentchat.gateway.runs.view import View
from tests.gateway.live_frames import ACCEPTED, called, completed, delta, feed, message, returned, run

CALLED = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1})
RETURNED = replace(CALLED, output="[1]")
STARTED = ToolStarted("call", "find", {"q": 1})
TOLD = ToolEnded("call", is_error=False, output="[1]")


def logged(*calls: Call) -> list[Round]:
    return [Round(number=1, text="He", calls=calls)]


def test_a_return_is_told_once_the_log_has_told_its_output() -> None:
    view = View(ViewKind(outputs=True))
    told = feed(view, ACCEPTED, delta(2, "He", 0), called(3), returned(4))
    assert (told, view.wants_log) == ([Started(), TextUpdate("He"), STARTED], True)
    told = view.feed_log(run(rounds=tuple(logged(CALLED))))
    assert (told, view.wants_log) == ([], True), "what was read was of before the return"
    told = view.feed_log(run(rounds=tuple(logged(RETURNED))))
    assert (told, view.wants_log) == ([TOLD], False)
    told = feed(view, returned(5), delta(6, "llo", 2))
    assert (told, view.wants_log) == ([TextUpdate("llo")], False), "it is told once"
    assert feed(view, completed(7, "Hello", tool_calls=1))[-1] == Finished(
        message("Hello"), (ToolCall(name="find", input={"q": 1}, output="[1]"),)
    )


def test_outputs_that_the_log_could_not_tell_come_before_the_end() -> None:
    view = View(ViewKind(outputs=True))
    told = feed(view, ACCEPTED, delta(2, "He", 0), called(3), returned(4), completed(5, "He", tool_calls=1))
    ended = run(state="completed", reply=message("He"), rounds=tuple(logged(RETURNED)))
    assert [*told, *view.feed_log(ended)][-2] == TOLD
    assert view.ended


@pytest.mark.parametrize("lost", [False, True])
def test_an_end_without_calls_does_not_wait_for_the_log(lost: bool) -> None:
    view = View(ViewKind(calls_at_end=False))
    frames = (ACCEPTED, delta(2, "He", 0), called(3), returned(4), completed(5, "He", tool_calls=1))
    told = view.feed_all(frames) if lost else feed(view, *frames)
    assert told[-1] == Finished(message("He"), ())
    assert (view.ended, view.wants_log) == (True, False)


def test_what_traces_repeat_is_told_with_outputs_too() -> None:
    view = View(ViewKind(outputs=True))
    frames = (ACCEPTED, delta(2, "He", 0), called(3), returned(4), delta(5, "llo", 2))
    assert view.feed_all(frames) == [Started(), TextUpdate("He"), STARTED, TextUpdate("llo")]
    assert view.wants_log
    assert view.feed_log(run(rounds=tuple(logged(RETURNED)))) == [TOLD]
