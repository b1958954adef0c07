"""Apply the rules by which a client returns the results of its own tools. Pure.

A run waits for its client as it waits for a person (`approval_rules`), from ClientToolRequested until the
ApprovalDecided that comes with the call's ToolReturned. Decided by `orchestrator.rpc.record_decision`.
"""

from collections.abc import Sequence
from datetime import datetime

from agentchat.contracts import events
from agentchat.contracts.text_checks import clean_text
from agentchat.contracts.values import ClientToolResult, Decider
from agentchat.conversations.aggregate.approval_rules import AlreadyDecided, DecisionEvents, DecisionRefused
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call

CONFLICT = "tool_result_conflict"


def return_results(
    run: Run, results: Sequence[ClientToolResult], by: Decider, *, now: str
) -> DecisionEvents | AlreadyDecided | DecisionRefused:
    """Return the events of the results of all calls that the run waits for, or why there are none.

    A result that was returned before is passed over if it is the same.
    """
    calls = {call.call_id: call for each in run.rounds for call in each.calls if call.is_client}
    waiting = {call.call_id: call for call in run.pending if call.is_client}
    given = {result.id: result for result in results}
    if unknown := [each.id for each in results if each.id not in calls]:
        return DecisionRefused(CONFLICT, f"No tool call {unknown[0]} of this run waits for a result.")
    if len(given) < len(results):
        return DecisionRefused(CONFLICT, "There are two results for one tool call.")
    changed = [each for id_, each in given.items() if id_ not in waiting and not _is_same(calls[id_], each)]
    if changed:
        return DecisionRefused(CONFLICT, f"The tool call {changed[0].id} has a result already.")
    if given.keys().isdisjoint(waiting):
        return AlreadyDecided()
    if missing := waiting.keys() - given.keys():
        return DecisionRefused("invalid_request", f"The run also waits for {', '.join(sorted(missing))}.")
    if any(approval.requested.expires_at <= now for call in waiting.values() for approval in call.pending):
        return DecisionRefused(CONFLICT, "It is too late: the run goes on without the result.")
    returned = tuple(
        event for id_, call in waiting.items() for event in _return_result(run, call, given[id_], by, now)
    )
    return DecisionEvents(events=returned, resumes=True)


def _is_same(call: Call, result: ClientToolResult) -> bool:
    return (call.output, call.is_error) == (clean_text(result.output), result.is_error)


def _return_result(
    run: Run, call: Call, result: ClientToolResult, by: Decider, now: str
) -> tuple[events.Event, ...]:
    (approval,) = call.pending
    waited = datetime.fromisoformat(now) - datetime.fromisoformat(approval.requested.at)
    return (
        events.ApprovalDecided(
            trace_id=run.trace_id, at=now, approval_id=approval.id, decision="approved", by=by, is_client=True
        ),
        events.ToolReturned(
            trace_id=run.trace_id,
            at=now,
            round=approval.requested.round,
            call_id=call.call_id,
            output=clean_text(result.output),
            is_error=result.is_error,
            ms=max(0, int(waited.total_seconds() * 1000)),
        ),
    )
