"""An upgrade while a run waits for a person: what the version before has stored and sent goes on."""

from typing import Any

import msgspec
import pytest

from contracts import events, wire
from contracts.messages import ChatRequested, DecideApproval
from contracts.values import Decider
from conversations.aggregate import approvals
from conversations.aggregate.approvals import ApprovalAnswer, Decided
from conversations.aggregate.conversation import Conversation, evolve_all, fold
from conversations.aggregate.turn import AlreadyPaused, Resume, ask_again, open_turn
from conversations.event_store import mapper
from tests.conversations import recorded
from tests.conversations.given import AGENT

pytestmark = pytest.mark.requirement("HISTORIES", "APPROVAL-PARK")

NOW = "2026-11-23T06:00:00.000000Z"
LATER = {
    "run_started.v1": (
        "instructions",
        "max_tool_rounds",
        "offset",
        "on_interruption",
        "worker",
        "shown_sha256",
    ),
    "model_replied.v1": ("prompt_sha256", "provider", "tools_sha256"),
    "approval_requested.v1": ("on_expiry", "on_new_message", "approvers"),
}
"""Fields that a version before may lack: each has a default."""


def former(state: bytes) -> tuple[str, bytes]:
    """A row as a version before would have stored it: a delta as its frames, and without later fields."""
    event: dict[str, Any] = msgspec.json.decode(state)
    for name in LATER.get(event["type"], ()):
        event.pop(name, None)
    if event["type"] == "delta.v1":
        event |= {"type": "delta.v0", "frames": [event.pop("text")]}
        del event["cuts"]
    return event["type"], wire.encode(event)


def upcast(old: dict[str, Any]) -> dict[str, Any]:
    text = "".join(old.pop("frames"))
    return old | {"type": "delta.v1", "text": text, "cuts": [len(text)]}


def waiting() -> Conversation:
    """The recorded conversation up to its first question to a person, read by the present version."""
    carried = recorded.carried("approvals")
    asked = next(each.version for each in carried.stored if each.topic == "approval_requested.v1")
    rows = [former(each.state) for each in carried.stored[:asked]]
    assert {topic for topic, _ in rows} >= {"delta.v0", "approval_requested.v1"}
    read = [mapper.event_of(topic, state, {"delta.v0": upcast}) for topic, state in rows]
    return fold(carried.conversation_id, read)


def without(message: ChatRequested | DecideApproval, *names: str) -> bytes:
    """A message as a version sends it that does not know these fields, and knows one that is gone."""
    sent: dict[str, Any] = msgspec.json.decode(wire.encode(message))
    return wire.encode({name: value for name, value in sent.items() if name not in names} | {"gone": 1})


def test_a_decision_and_a_request_of_the_version_before_resume_what_it_has_stored() -> None:
    conversation = waiting()
    (run,) = conversation.runs
    ((approval,),) = (call.pending for call in run.pending)
    decision = DecideApproval(
        trace_id=run.trace_id,
        account_id=conversation.account_id or "",
        conversation_id=conversation.conversation_id,
        approval_id=approval.id,
        decision="approved",
        by=Decider(kind="account", id="k"),
    )
    command = wire.decode_command(without(decision, "input", "reason", "on_behalf_of"))
    assert command == decision
    answer = ApprovalAnswer(approval_id=decision.approval_id, decision="approved", by=decision.by)
    decided = approvals.decide(run, answer, now=NOW)
    assert isinstance(decided, Decided)
    assert decided.resumes
    request = ask_again(conversation, run, 2)
    asked = wire.decode_message(
        ChatRequested, without(request, "history", "after", "instructions", "shown_sha256", "prompt")
    )
    assert isinstance(open_turn(conversation, asked, AGENT, now=NOW, expired=False), AlreadyPaused)
    conversation = evolve_all(conversation, decided.events)
    opening = open_turn(conversation, asked, AGENT, now=NOW, expired=True)
    assert isinstance(opening, Resume)
    (going_on,) = evolve_all(conversation, opening.events).runs
    assert (going_on.attempt, going_on.pending, going_on.text) == (2, (), run.text)
    assert going_on.rounds[-1].calls[0].may_run_since == (2, NOW)


def test_what_the_version_before_has_left_undecided_expires() -> None:
    conversation = waiting()
    (run,) = conversation.runs
    ((approval,),) = (call.pending for call in run.pending)
    later = approval.requested.expires_at
    opening = open_turn(conversation, ask_again(conversation, run, 2), AGENT, now=later, expired=False)
    assert isinstance(opening, Resume)
    kinds = [type(event) for event in opening.events]
    assert kinds == [events.ApprovalDecided, events.ToolReturned, events.RunStarted]
