"""A run that waits for a person, as its readers are told of it: by its gateway alone, and then to go on."""

from typing import Any

from agentchat.contracts import events, frames
from agentchat.contracts.updates import Broken, NextRound, Started, TextUpdate, ToolEnded, ToolStarted
from agentchat.contracts.values import ApprovalNeeded, Decider
from agentchat.conversations.aggregate.rounds import Call, CallApproval, Round
from agentchat.gateway.runs.frames_to_updates import View
from agentchat.gateway.runs.updates_after_cursor import UpdateHistory
from tests.gateway.live_frames import (
    ACCEPTED,
    feed,
    make_called,
    make_delta,
    make_resumed,
    run,
)

INPUT = {"q": 1}
ASKED = events.ApprovalRequested(
    trace_id="t",
    at="t",
    approval_id="approval-1",
    call_id="call",
    round=1,
    input_sha256="",
    expires_at="later",
    agent_id="a",
    server="shop",
    tool="find",
)
NEEDED = ApprovalNeeded(id="approval-1", tool="find", input=INPUT, expires_at="later")
PAUSED = frames.Paused(seq=4, attempt=1)


def make_rounds(**changes: Any) -> tuple[Round, ...]:
    call = Call(
        call_id="call",
        at="t",
        name="find",
        input=INPUT,
        needs_approval=True,
        approvals=(CallApproval(ASKED),),
    )
    for name, value in changes.items():
        call = Call(**{each: getattr(call, each) for each in call.__struct_fields__} | {name: value})
    return (Round(number=1, text="Hello.", cuts=(6,), blocks=(), calls=(call,)),)


def approve_call(given: dict[str, Any] | None = None) -> CallApproval:
    decided = events.ApprovalDecided(
        trace_id="t",
        at="t",
        approval_id="approval-1",
        decision="approved",
        by=Decider(kind="account", id="k"),
        input=given,
    )
    return CallApproval(ASKED, decided, resumed=2, resumed_at="t")


def test_live_reader_learns_what_the_run_waits_for() -> None:
    view = View()
    before = feed(view, ACCEPTED, make_delta(2, "Hello.", 0), make_called(3), PAUSED)
    assert view.wants_log
    last = view.feed_log(run(rounds=make_rounds()))
    assert last == [
        Broken(
            "approval_required",
            "A person has to approve a tool call.",
            local=True,
            approvals=(NEEDED,),
            calls=("call",),
        )
    ]
    assert before == [Started(), TextUpdate("Hello."), ToolStarted("call", "find", INPUT)]
    assert view.ended


def test_pause_has_no_cursor_so_readers_continue_after_it() -> None:
    buffer = UpdateHistory()
    buffer.add(View().feed_log(run(rounds=make_rounds())))
    assert [entry.cursor is None for entry in buffer.entries] == [False, False, False, True]
    assert buffer.is_local


def test_late_reader_of_resumed_run_has_rounds_in_order() -> None:
    view = View()
    updates = view.feed_all(
        [make_resumed(2, "Hello."), frames.DeltaFrame(seq=2, attempt=2, round=2, text="!", offset=6)]
    )
    assert view.wants_log
    updates += view.feed_log(run(rounds=make_rounds(approvals=(approve_call(),), output="{}"), attempt=2))
    assert [type(update) for update in updates] == [
        *(Started, TextUpdate, ToolStarted, ToolEnded, NextRound, TextUpdate)
    ]


def test_a_refusal_names_what_the_conversation_waits_for() -> None:
    view = View()
    refused = frames.Refused(
        seq=0, attempt=1, code="approval_pending", message="m", approvals=(ApprovalNeeded(id="x"),)
    )
    (broken,) = view.feed(refused)
    assert isinstance(broken, Broken)
    assert broken.approvals == (ApprovalNeeded(id="x"),)
