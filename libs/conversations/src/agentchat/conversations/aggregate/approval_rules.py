"""Apply the rules by which people decide about tool calls. Pure.

A run waits from the event that asks until the event that decides the last of its calls. A denied call gets
its result with that event: the model is told, and no tool is called. A call whose tool has asked a person is
run again in any case, because its server must learn the answer.

Requested by `orchestrator.run.perform_step`, decided by `orchestrator.rpc.record_decision`.
"""

import hashlib
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events, wire
from agentchat.contracts.updates import Broken, wait_for_approvals, wait_for_client
from agentchat.contracts.values import (
    ApprovalDecision,
    ApprovalNeeded,
    Approvers,
    Decider,
    InputAsked,
    OnExpiry,
    OnNewMessage,
    PendingClientCall,
    ToolSpec,
)
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call, CallApproval, Requested

INTERRUPTED = "The call was interrupted; its outcome is unknown."
NOT_RUN = "The call was not run: it was not approved."
_EXPIRED = "The call was not run: its approval expired. Call the tool again if the result is still needed."
_NOT_RETURNED = "The client did not run the tool in time; whether it ran is unknown."
_DENIED = "The call was not run: a person denied it."
_SERVICE = Decider(kind="service", id="service")


class ApprovalTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of an approval, from the agent's configuration."""

    agent_id: str
    server: str
    tool: str
    expires_at: str
    approvers: Approvers
    on_expiry: OnExpiry
    on_new_message: OnNewMessage


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer about a call.

    `input` replaces the model's input, or answers what the tool has asked for.
    """

    approval_id: str
    decision: Literal["approved", "denied"]
    by: Decider
    on_behalf_of: str | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None


class DecisionEvents(msgspec.Struct, frozen=True):
    """The events to append. If `resumes`, the run must be requested again."""

    events: tuple[events.Event, ...]
    resumes: bool


class AlreadyDecided(msgspec.Struct, frozen=True):
    """The same decision was made before."""


class DecisionRefused(msgspec.Struct, frozen=True):
    """Nothing is appended; `code` is one of `contracts.errors`, `detail` says what is wrong."""

    code: str
    detail: str | None = None


def request_approval(
    run: Run,
    number: int,
    call: Call,
    terms: ApprovalTerms,
    *,
    approval_id: str,
    now: str,
    asked: InputAsked | None = None,
    offered_tool: ToolSpec | None = None,
) -> Requested:
    """Return the event that asks a person about a call, or about its tool's question, or hands it over.

    A call of a client's tool is handed over to the client.
    """
    fields: dict[str, Any] = {
        "trace_id": run.trace_id,
        "at": now,
        "approval_id": approval_id,
        "call_id": call.call_id,
        "round": number,
        "input_sha256": hashlib.sha256(wire.encode_canonical(call.input)).hexdigest(),
        **msgspec.structs.asdict(terms),
    }
    if call.is_client:
        return events.ClientToolRequested(**fields)
    if asked is None:
        return events.ApprovalRequested(**fields)
    return events.ElicitationRequested(asked=asked, offered_tool=offered_tool or msgspec.UNSET, **fields)


def decide_approval(
    run: Run, answer: ApprovalAnswer, *, now: str
) -> DecisionEvents | AlreadyDecided | DecisionRefused:
    """Return the events of a person's decision, or why there are none."""
    call, approval = find_approval(run, answer.approval_id) or (None, None)
    if call is None or approval is None or approval.is_client:
        return DecisionRefused("not_found")
    if approval.requested.approvers == "operator" and answer.by.kind != "operator":
        return DecisionRefused("approval_forbidden")
    changed = (
        _find_changed_input(call, answer) if approval.asked is None else build_content(approval.asked, answer)
    )
    if approval.decided is not None:
        known = approval.decided
        if (known.decision, _encode(known.input)) == (answer.decision, _encode(changed)):
            return AlreadyDecided()
        return DecisionRefused("approval_expired" if known.decision == "expired" else "approval_decided")
    if run.state != "running":
        return DecisionRefused("approval_decided")
    if approval.requested.expires_at <= now:
        return DecisionRefused("approval_expired")
    decided = events.ApprovalDecided(
        trace_id=run.trace_id,
        at=now,
        approval_id=answer.approval_id,
        decision=answer.decision,
        by=answer.by,
        on_behalf_of=answer.on_behalf_of,
        input=changed,
        reason=answer.reason,
    )
    reason = f"{_DENIED} Their reason: {answer.reason}" if answer.reason else _DENIED
    runs = answer.decision == "approved" or approval.asked is not None
    refused = () if runs else (_refuse_call(run, approval, reason, now),)
    return DecisionEvents(events=(decided, *refused), resumes=len(_list_waiting(run)) == 1)


def expire_approvals(run: Run, now: str) -> tuple[events.Event, ...]:
    """Return the events that end the wait of a run whose approvals have expired.

    Returns () if time is left.
    """
    waiting = _list_waiting(run)
    if not waiting or any(approval.requested.expires_at > now for approval in waiting):
        return ()
    return tuple(
        event
        for approval in waiting
        for event in (
            _close(run, approval, "expired", now),
            *(
                ()
                if approval.asked is not None
                else (_refuse_call(run, approval, _NOT_RETURNED if approval.is_client else _EXPIRED, now),)
            ),
        )
    )


def withdraw_approvals(run: Run, now: str) -> tuple[events.Event, ...]:
    """Return the decisions that accompany the end of a waiting run.

    Its approvals are cancelled.
    """
    return tuple(_close(run, approval, "cancelled", now) for approval in _list_waiting(run))


def list_needed_approvals(run: Run) -> tuple[ApprovalNeeded, ...]:
    """List the approvals that the run waits for, as its reader sees them."""
    return tuple(
        ApprovalNeeded(
            id=approval.id,
            tool=call.name,
            input=call.input,
            expires_at=approval.requested.expires_at,
            elicitation=None if approval.asked is None else approval.asked.elicitation,
        )
        for call in run.pending
        for approval in call.pending
        if not approval.is_client
    )


def list_client_calls(run: Run) -> tuple[PendingClientCall, ...]:
    """List the calls that the run waits for its client to run."""
    return tuple(
        PendingClientCall(id=call.call_id, name=call.name, input=call.input)
        for call in run.pending
        if call.is_client
    )


def build_pause(run: Run) -> Broken:
    """Return the last update that a reader of a waiting run receives."""
    if client_calls := list_client_calls(run):
        return replace(wait_for_client(client_calls), usage=run.usage)
    calls = tuple(call.call_id for call in run.pending for _ in call.pending)
    return replace(wait_for_approvals(list_needed_approvals(run), calls), usage=run.usage)


def describe_missing_result(call: Call | None) -> str:
    """Return the text that a model gets for a call that has no result and whose run has ended."""
    if call is not None and call.is_client:
        return _NOT_RETURNED
    return INTERRUPTED if call is None or call.may_run else NOT_RUN


def on_new_message(run: Run) -> OnNewMessage:
    """Return what a new message does to a waiting run: supersede it, or be refused."""
    superseded = all(each.requested.on_new_message == "supersede" for each in _list_waiting(run))
    return "supersede" if superseded else "refuse"


def on_expiry(run: Run) -> OnExpiry:
    """Return what happens to a waiting run when its approvals expire."""
    return "fail" if any(each.requested.on_expiry == "fail" for each in _list_waiting(run)) else "continue"


def find_approval(run: Run, approval_id: str) -> tuple[Call, CallApproval] | None:
    """Find an approval of a run, with its call."""
    for each in reversed(run.rounds):
        for call in each.calls:
            for approval in call.approvals:
                if approval.id == approval_id:
                    return call, approval
    return None


def build_content(asked: InputAsked, answer: ApprovalAnswer) -> dict[str, Any] | None:
    """Return what the tool receives for its elicitation.

    {} for an empty form, None for a link or a denial.
    """
    return (answer.input or {}) if answer.decision == "approved" and asked.mode == "form" else None


def find_fault(asked: InputAsked, answer: ApprovalAnswer) -> str:
    """Return why an answer is invalid for any schema; "" if it is valid."""
    if asked.mode == "url":
        return "" if answer.input is None else "A link takes no input; open it and approve."
    if all(_is_plain(value) for value in (answer.input or {}).values()):
        return ""
    return "Each value must be a string, a number, true, false, null, or a list of strings."


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str | int | float)


def _list_waiting(run: Run) -> tuple[CallApproval, ...]:
    return tuple(approval for call in run.pending for approval in call.pending)


def _find_changed_input(call: Call, answer: ApprovalAnswer) -> dict[str, Any] | None:
    """Return the input that replaces the model's; None if it is the same."""
    if answer.decision != "approved" or _encode(answer.input) == _encode(call.input):
        return None
    return answer.input


def _encode(given: dict[str, Any] | None) -> bytes | None:
    return None if given is None else wire.encode_canonical(given)


def _close(run: Run, approval: CallApproval, decision: ApprovalDecision, now: str) -> events.ApprovalDecided:
    return events.ApprovalDecided(
        trace_id=run.trace_id,
        at=now,
        approval_id=approval.id,
        decision=decision,
        by=_SERVICE,
        is_client=approval.is_client,
    )


def _refuse_call(run: Run, approval: CallApproval, reason: str, now: str) -> events.ToolReturned:
    return events.ToolReturned(
        trace_id=run.trace_id,
        at=now,
        round=approval.requested.round,
        call_id=approval.requested.call_id,
        output=wire.encode_tool_error(reason),
        is_error=True,
        ms=0,
    )
