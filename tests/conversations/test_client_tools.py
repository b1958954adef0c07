"""Given a run whose model calls a client's tool, when results come or nobody sends any -> these events."""

from typing import Any

import msgspec
import pytest

from agentchat.contracts import events
from agentchat.contracts.values import ClientToolResult, Decider, PendingClientCall
from agentchat.conversations.aggregate.approval_rules import (
    AlreadyDecided,
    DecisionEvents,
    DecisionRefused,
    build_pause,
    decide_approval,
)
from agentchat.conversations.aggregate.client_tool_rules import return_results
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.aggregate.next_step import CallModel, RequestApproval, RunTools, decide_next_step
from agentchat.conversations.aggregate.opening_rules import ResumeRun, SupersedeRun, decide_opening
from agentchat.conversations.aggregate.run_ends import cancel
from tests.conversations.given import (
    AGENT,
    begin,
    build_thread,
    build_tool_called,
    build_tool_returned,
    request,
    trace,
    use,
)
from tests.conversations.test_approvals import AFTER, EXPIRES, SOON, answer, ask, run_of

KEY = Decider(kind="account", id="key-1")
CLIENT = {"show_map", "pick_date"}
MAP = ClientToolResult(id="c2", output='{"shown":true}')
DATE = ClientToolResult(id="c3", output='"2026-12-24"')


def call(*blocks: dict[str, Any]) -> tuple[events.Event, ...]:
    return tuple(
        msgspec.structs.replace(event, is_client=True)
        if isinstance(event, events.ToolCalled) and event.name in CLIENT
        else event
        for event in build_tool_called(list(blocks))
    )


def wait(call_id: str, tool: str) -> events.ClientToolRequested:
    fields = msgspec.structs.asdict(ask()) | {"call_id": call_id, "approval_id": f"request-{call_id}"}
    return events.ClientToolRequested(**fields | {"server": "", "tool": tool, "on_new_message": "supersede"})


def build_called() -> Conversation:
    """A round that calls a tool of the agent's, and two of the client's."""
    calls = call(use("c1", "find", q=1), use("c2", "show_map", city="Ulm"), use("c3", "pick_date"))
    return build_thread(*begin(), *calls)


def build_waiting() -> Conversation:
    asked = (build_tool_returned("c1"), wait("c2", "show_map"), wait("c3", "pick_date"))
    return evolve_all(build_called(), asked)


def test_own_tools_run_first_then_the_client_has_its_turn() -> None:
    called = build_called()
    own = decide_next_step(run_of(called))
    assert isinstance(own, RunTools)
    assert [each.call_id for each in own.calls] == ["c1"]
    handed = decide_next_step(run_of(evolve_all(called, [build_tool_returned("c1")])))
    assert isinstance(handed, RequestApproval)
    assert [each.call_id for each in handed.calls] == ["c2", "c3"]
    run = run_of(build_waiting())
    assert decide_next_step(run) is None
    pause = build_pause(run)
    assert (pause.code, pause.approvals) == ("client_tools_required", ())
    assert pause.client_calls == (
        PendingClientCall(id="c2", name="show_map", input={"city": "Ulm"}),
        PendingClientCall(id="c3", name="pick_date", input={}),
    )


def test_results_of_all_calls_resume_the_run() -> None:
    waiting = build_waiting()
    outcome = return_results(run_of(waiting), (DATE, MAP), KEY, now=SOON)
    assert isinstance(outcome, DecisionEvents)
    run = run_of(evolve_all(waiting, outcome.events))
    assert [each.output for each in run.rounds[0].calls[1:]] == [MAP.output, DATE.output]
    assert run.is_unpaused
    assert isinstance(decide_next_step(run), CallModel)
    assert isinstance(return_results(run, (MAP, DATE), KEY, now=AFTER), AlreadyDecided)
    changed = return_results(run, (MAP, msgspec.structs.replace(DATE, is_error=True)), KEY, now=SOON)
    assert isinstance(changed, DecisionRefused)
    assert (changed.code, "c3" in (changed.detail or "")) == ("tool_result_conflict", True)


@pytest.mark.parametrize(
    ("results", "now", "code"),
    [
        ((MAP,), SOON, "invalid_request"),
        ((MAP, DATE, MAP), SOON, "tool_result_conflict"),
        ((MAP, ClientToolResult(id="c1", output="1")), SOON, "tool_result_conflict"),
        ((MAP, DATE), EXPIRES, "tool_result_conflict"),
    ],
    ids=["one is missing", "one comes twice", "not the client's call", "too late"],
)
def test_results_that_do_not_fit_change_nothing(results: Any, now: str, code: str) -> None:
    outcome = return_results(run_of(build_waiting()), results, KEY, now=now)
    assert isinstance(outcome, DecisionRefused)
    assert outcome.code == code


def test_nobody_can_approve_a_client_call() -> None:
    outcome = decide_approval(run_of(build_waiting()), answer(approval_id="request-c2"), now=SOON)
    assert outcome == DecisionRefused("not_found")


def test_calls_without_results_are_errors_once_they_expire() -> None:
    waiting = build_waiting()
    opening = decide_opening(waiting, request("a"), AGENT, now=AFTER, expired=False)
    assert isinstance(opening, ResumeRun)
    run = run_of(evolve_all(waiting, opening.events))
    assert [each.is_error for each in run.rounds[0].calls] == [False, True, True]
    assert "did not run the tool in time" in (run.rounds[0].calls[1].output or "")


def test_a_new_message_ends_the_wait_for_the_client() -> None:
    waiting = build_waiting()
    opening = decide_opening(waiting, request("b"), AGENT, now=SOON, expired=False)
    assert isinstance(opening, SupersedeRun)
    assert opening.trace_id == trace("a")
    decided = [each for each in cancel(run_of(waiting), SOON) if isinstance(each, events.ApprovalDecided)]
    assert [(each.decision, each.is_client) for each in decided] == [("cancelled", True)] * 2
