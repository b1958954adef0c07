"""given a run that has received a message -> it is saved with these of the run's events, and no others."""

import pytest

from agentchat.contracts import events
from agentchat.conversations.aggregate.busy_rules import place_messages
from agentchat.conversations.aggregate.conversation import evolve_all
from agentchat.conversations.aggregate.model_messages import build_prompt
from agentchat.conversations.aggregate.run_ends import cancel
from tests.conversations.given import (
    AT,
    begin,
    build_answer,
    build_conversation_started,
    build_handed_over,
    build_held_call,
    build_run,
    build_tool_called,
    build_tool_returned,
    trace,
    use,
)

CALLED = build_tool_called([use("call")])
HELD = build_held_call()
RETURNED = (build_tool_returned("call"),)


def build_received(*, interrupts: bool) -> events.MessageReceived:
    message, started = begin("b", "And?")
    return events.MessageReceived(
        trace_id=trace(), at=AT, message=message, started=started if interrupts else None
    )


@pytest.mark.parametrize(
    ("before", "new", "interrupts", "placed"),
    [
        (CALLED, RETURNED, False, ["a"]),
        (CALLED, RETURNED, True, []),
        (HELD[:2], HELD[2:3], False, ["a"]),
        (CALLED, (build_handed_over(),), False, []),
        ((), CALLED, False, []),
        ((), (build_handed_over(),), False, []),
        ((), build_answer("Yes."), False, []),
        ((), build_answer("Yes."), True, ["b", "b"]),
    ],
)
def test_a_received_message_is_saved_at_a_boundary_or_the_end(
    before: tuple[events.Event, ...], new: tuple[events.Event, ...], interrupts: bool, placed: list[str]
) -> None:
    begun = (build_conversation_started(), *begin(), *before)
    conversation = build_run(*begun, build_received(interrupts=interrupts))
    saved = place_messages(conversation, trace(), new)
    assert [each.trace_id for each in saved] == [trace(word) for word in placed]
    after = evolve_all(conversation, (*new, *saved))
    assert [run.state for run in after.runs][1:] == ["running"] * (len(saved) - 1)


def test_a_message_that_steers_follows_the_results() -> None:
    conversation = build_run(
        *(build_conversation_started(), *begin(), *CALLED), build_received(interrupts=False)
    )
    after = evolve_all(conversation, (*RETURNED, *place_messages(conversation, trace(), RETURNED)))
    shown = build_prompt(after, trace(), tools_offered=True).messages[-1]["content"]
    assert [block["type"] for block in shown] == ["tool_result", "text"]
    assert after.runs[0].received == ()


def test_an_interrupted_run_closes_its_open_calls() -> None:
    begun = (build_conversation_started(), *begin(), *CALLED)
    run = build_run(*begun).runs[0]
    returned, ended = cancel(run, AT, interrupted_by=trace("b"))
    assert isinstance(returned, events.ToolReturned)
    assert (returned.call_id, returned.is_error, "unknown" in returned.output) == ("call", True, True)
    assert evolve_all(build_run(*begun), (returned, ended)).runs[0].code == "interrupted"
