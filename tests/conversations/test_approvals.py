"""Given a run that waits for a person, when somebody decides or nobody does -> these events."""

from datetime import datetime
from typing import Any

import msgspec

from agentchat.contracts import events
from agentchat.contracts.updates import Finished
from agentchat.contracts.values import Decider, InputAsked
from agentchat.conversations.aggregate.approval_rules import (
    NOT_RUN,
    AlreadyDecided,
    ApprovalAnswer,
    ApprovalTerms,
    DecisionEvents,
    DecisionRefused,
    decide_approval,
    request_approval,
)
from agentchat.conversations.aggregate.canonical_stream import build_last_update
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all
from agentchat.conversations.aggregate.model_messages import build_prompt
from agentchat.conversations.aggregate.next_step import (
    CallModel,
    RequestApproval,
    RunTools,
    conclude,
    decide_next_step,
)
from agentchat.conversations.aggregate.opening_rules import (
    AlreadyPaused,
    GiveUpRun,
    Opening,
    Rejected,
    ResumeRun,
    SupersedeRun,
    decide_opening,
)
from tests.conversations.given import (
    AGENT,
    AT,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_model_replied,
    build_run,
    build_thread,
    build_tool_called,
    build_tool_returned,
    request,
    trace,
    use,
)

SOON = "2026-11-21T10:30:00.000000Z"
EXPIRES = "2126-11-28T09:30:00.000000Z"
AFTER = "2126-11-28T09:30:00.000001Z"
ADA = Decider(kind="account", id="key-1")
BLOCKS = [use("c1", "find", q=1), use("c2", "cancel_order", order_id="ORD-1")]


def call_tool(*held: str, blocks: list[dict[str, Any]] | None = None) -> tuple[events.Event, ...]:
    """A reply with calls, of which those of the tools in `held` wait for a person."""
    return tuple(
        msgspec.structs.replace(event, needs_approval=True)
        if isinstance(event, events.ToolCalled) and event.name in held
        else event
        for event in build_tool_called(blocks or BLOCKS)
    )


def ask(call_id: str = "c2", **terms: Any) -> events.ApprovalRequested:
    run = build_thread(*begin(), *call_tool("cancel_order")).runs[0]
    call = next(each for each in run.rounds[0].calls if each.call_id == call_id)
    own = {
        "agent_id": "agent-1",
        "server": "shop",
        "tool": call.name,
        "expires_at": EXPIRES,
        "approvers": "account",
        "on_expiry": "continue",
        "on_new_message": "refuse",
    }
    asked_ = request_approval(
        run, 1, call, ApprovalTerms(**own | terms), approval_id=f"approval-{call_id}", now=AT
    )
    assert isinstance(asked_, events.ApprovalRequested)
    return asked_


def build_elicitation(asked: InputAsked, **fields: Any) -> events.ElicitationRequested:
    """What the tool of that call asks."""
    return events.ElicitationRequested(**msgspec.structs.asdict(ask()) | fields, asked=asked)


def build_waiting(**terms: Any) -> Conversation:
    events_ = (
        build_conversation_started(),
        *begin(),
        *call_tool("cancel_order"),
        build_tool_returned("c1"),
        ask(**terms),
    )
    return build_run(*events_)


def answer(decision: Any = "approved", **fields: Any) -> ApprovalAnswer:
    return ApprovalAnswer(**{"approval_id": "approval-c2", "decision": decision, "by": ADA} | fields)


def run_of(conversation: Conversation) -> Run:
    return conversation.runs[0]


def apply(conversation: Conversation, said_: ApprovalAnswer, now: str = SOON) -> Conversation:
    outcome = decide_approval(run_of(conversation), said_, now=now)
    assert isinstance(outcome, DecisionEvents)
    assert outcome.resumes
    return evolve_all(conversation, outcome.events)


def repeat(conversation: Conversation, now: str = SOON) -> Opening:
    """The run's own request comes again."""
    return decide_opening(conversation, request("a"), AGENT, now=now, expired=False)


def test_calls_that_need_nobody_run_first_and_then_the_run_waits() -> None:
    called_ = build_thread(*begin(), *call_tool("cancel_order"))
    step = decide_next_step(run_of(called_))
    assert isinstance(step, RunTools)
    assert [call.call_id for call in step.calls] == ["c1"]
    found = evolve_all(called_, [build_tool_returned("c1")])
    step = decide_next_step(run_of(found))
    assert isinstance(step, RequestApproval)
    assert [call.call_id for call in step.calls] == ["c2"]
    parked = evolve_all(found, [ask()])
    run = run_of(parked)
    assert [call.call_id for call in run.pending] == ["c2"]
    assert run.state == "running"
    assert decide_next_step(run) is None
    assert conclude(run, message_id="m", now=AT) == ()
    assert repeat(parked) == AlreadyPaused(run=run)


def test_approved_call_runs_unchanged_in_the_next_attempt() -> None:
    decided = apply(build_waiting(), answer())
    run = run_of(decided)
    assert run.is_unpaused
    resumed = repeat(decided)
    assert isinstance(resumed, ResumeRun)
    run = run_of(evolve_all(decided, resumed.events))
    step = decide_next_step(run)
    assert isinstance(step, RunTools)
    (call,) = step.calls
    assert (call.call_id, call.ran_input, call.may_run_since) == ("c2", {"order_id": "ORD-1"}, (2, SOON))
    assert not run.is_unpaused
    assert run.paused_seconds == 3600.0


def test_a_changed_input_is_run_and_reported_to_the_model() -> None:
    changed = {"order_id": "ORD-2"}
    decided = apply(build_waiting(), answer(input=changed))
    resumed = repeat(decided)
    assert isinstance(resumed, ResumeRun)
    done = evolve_all(
        decided,
        (*resumed.events, build_tool_returned("c2"), *build_delta("Done.", number=2), *build_answer("Done.")),
    )
    call = run_of(done).rounds[0].calls[1]
    assert (call.input, call.ran_input) == ({"order_id": "ORD-1"}, changed)
    result = build_prompt(done, trace(), tools_offered=True).messages[2]["content"][1]
    assert result["content"] == (
        "A person changed the input of this call before it ran. "
        'It ran with {"order_id":"ORD-2"}.\n{"ok":true}'
    )
    end = build_last_update(run_of(done))
    assert isinstance(end, Finished)
    assert [each.input for each in end.tool_calls] == [{"q": 1}, changed]


def test_an_input_that_is_the_models_own_changes_nothing() -> None:
    decided = apply(build_waiting(), answer(input={"order_id": "ORD-1"}))
    assert run_of(decided).rounds[0].calls[1].changed_input is None
    assert decide_approval(run_of(decided), answer(), now=SOON) == AlreadyDecided()


def test_a_denied_call_is_not_run_and_the_model_gets_the_reason() -> None:
    decided = apply(build_waiting(), answer("denied", reason="It has left."))
    call = run_of(decided).rounds[0].calls[1]
    said_ = "The call was not run: a person denied it. Their reason: It has left."
    assert call.output == f'{{"error":"{said_}"}}'
    assert call.is_error
    assert decide_next_step(run_of(decided)) == CallModel(round=2, tools=True)


def test_the_same_decision_again_is_known_and_another_is_not_made() -> None:
    run = run_of(apply(build_waiting(), answer()))
    assert decide_approval(run, answer(by=Decider(kind="account", id="key-2")), now=AFTER) == AlreadyDecided()
    for other in (answer("denied"), answer(input={"order_id": "ORD-9"})):
        assert decide_approval(run, other, now=SOON) == DecisionRefused("approval_decided")


def test_who_may_not_decide_and_what_is_not_there_decides_nothing() -> None:
    run = run_of(build_waiting(approvers="operator"))
    assert decide_approval(run, answer(), now=SOON) == DecisionRefused("approval_forbidden")
    operator = Decider(kind="operator", id="ada@cli")
    assert isinstance(decide_approval(run, answer(by=operator), now=SOON), DecisionEvents)
    assert decide_approval(run, answer(approval_id="another"), now=SOON) == DecisionRefused("not_found")


def test_the_run_waits_until_all_its_calls_are_decided() -> None:
    blocks = [use("c1", "cancel_order"), use("c2", "cancel_order", order_id="ORD-1")]
    called_ = (build_conversation_started(), *begin(), *call_tool("cancel_order", blocks=blocks))
    first = msgspec.structs.replace(ask(), call_id="c1", approval_id="approval-c1")
    both = build_run(*called_, first, ask())
    one = decide_approval(run_of(both), answer(), now=SOON)
    assert isinstance(one, DecisionEvents)
    assert not one.resumes
    half = evolve_all(both, one.events)
    assert decide_next_step(run_of(half)) is None
    assert isinstance(repeat(half), AlreadyPaused)
    two = decide_approval(run_of(half), answer(approval_id="approval-c1"), now=SOON)
    assert isinstance(two, DecisionEvents)
    assert two.resumes


def test_nobody_decides_in_time_and_the_run_goes_on_without_the_call() -> None:
    parked = build_waiting()
    assert decide_approval(run_of(parked), answer(), now=EXPIRES) == DecisionRefused("approval_expired")
    assert isinstance(repeat(parked, SOON), AlreadyPaused)
    resumed = repeat(parked, AFTER)
    assert isinstance(resumed, ResumeRun)
    expired = run_of(evolve_all(parked, resumed.events))
    assert decide_next_step(expired) == CallModel(round=2, tools=True)
    assert "its approval expired" in (expired.rounds[0].calls[1].output or "")
    waited = datetime.fromisoformat(AFTER) - datetime.fromisoformat(AT)
    assert expired.paused_seconds == waited.total_seconds()
    assert decide_approval(expired, answer(), now=AFTER) == DecisionRefused("approval_expired")


def test_expired_approval_fails_the_run_if_configured() -> None:
    parked = build_waiting(on_expiry="fail")
    ended = repeat(parked, AFTER)
    assert isinstance(ended, GiveUpRun)
    run = run_of(evolve_all(parked, ended.events))
    assert (run.state, run.code) == ("failed", "approval_expired")


def test_a_new_message_is_refused_while_a_person_is_to_decide() -> None:
    refused = decide_opening(build_waiting(), request("b"), AGENT, now=SOON, expired=False)
    assert isinstance(refused, Rejected)
    assert refused.code == "approval_pending"
    assert [each.id for each in refused.approvals] == ["approval-c2"]


def test_new_message_ends_the_waiting_run_if_configured() -> None:
    parked = build_waiting(on_new_message="supersede")
    begun = decide_opening(parked, request("b"), AGENT, now=SOON, expired=False)
    assert isinstance(begun, SupersedeRun)
    assert begun.trace_id == trace("a")
    both = evolve_all(parked, begun.events)
    assert [run.state for run in both.runs] == ["cancelled", "running"]
    assert decide_approval(run_of(both), answer(), now=SOON) == DecisionRefused("approval_decided")
    shown = build_prompt(both, trace("b"), tools_offered=True).messages[2]["content"]
    assert shown[1] == {"type": "tool_result", "tool_use_id": "c2", "content": NOT_RUN, "is_error": True}


def test_a_call_of_before_approvals_may_run_at_once() -> None:
    run = build_thread(*begin(), build_model_replied(BLOCKS), *build_tool_called(BLOCKS)[1:]).runs[0]
    assert all(call.may_run and call.may_run_since == (1, AT) for call in run.rounds[0].calls)
