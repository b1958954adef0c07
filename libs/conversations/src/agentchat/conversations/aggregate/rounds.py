"""The rounds of a run: each one model call and the tool calls that it asked for, with what persons said of
them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.tool_messages import InputResponse
from agentchat.contracts.values import ElicitationAction, Usage

_ACTIONS: dict[str, ElicitationAction] = {"approved": "accept", "denied": "decline"}


class CallApproval(msgspec.Struct, frozen=True):
    """What was asked of a person about a call, and what was decided, None until it was.

    `wait` counts the waits of the round before the one in which it was asked. `resumed` is the first attempt
    that found it decided, 0 before there is one, and `resumed_at` when that began.
    """

    requested: events.ApprovalRequested | events.ElicitationRequested
    decided: events.ApprovalDecided | None = None
    resumed: int = 0
    resumed_at: str = ""
    wait: int = 0

    @property
    def id(self) -> str:
        return self.requested.approval_id

    @property
    def asked(self) -> events.InputAsked | None:
        """What the tool asks for, None where a person is asked whether the call may run."""
        return self.requested.asked if isinstance(self.requested, events.ElicitationRequested) else None

    @property
    def response(self) -> InputResponse | None:
        asked, decided = self.asked, self.decided
        if asked is None or decided is None:
            return None
        return InputResponse(
            key=asked.key,
            elicitation=asked.elicitation,
            leg=asked.leg,
            action=_ACTIONS.get(decided.decision, "cancel"),
            content=decided.input,
        )


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a round, recorded at `at` (ISO 8601 UTC) by an attempt.

    `output` (a string that parses as JSON) is None until it returned. `input` is the model's own. `approvals`
    are what persons were asked about it, in order: whether it may run, and then what its tool asks for.
    """

    call_id: str
    at: str
    name: str
    input: dict[str, Any]
    output: str | None = None
    is_error: bool = False
    ms: int = 0
    attempt: int = 0
    needs_approval: bool = False
    approvals: tuple[CallApproval, ...] = ()

    @property
    def pending(self) -> tuple[CallApproval, ...]:
        return tuple(each for each in self.approvals if each.decided is None)

    @property
    def may_run(self) -> bool:
        """Whether nobody needs to allow it, or somebody has, and what its tool asked for is decided."""
        return (not self.needs_approval or self._approved is not None) and not self.pending

    @property
    def is_denied(self) -> bool:
        decided = self._decided
        return decided is not None and decided.decision == "denied"

    @property
    def leg(self) -> int:
        """How often its tool has asked a person, and was not done."""
        asked = self._asked
        return asked[-1].leg + 1 if asked else 0

    @property
    def request_state(self) -> str | None:
        """What its tool gave when it asked last."""
        asked = self._asked
        return asked[-1].request_state if asked else None

    @property
    def responses(self) -> tuple[InputResponse, ...]:
        """What its tool is told when it is run again, of all that it has asked for."""
        return tuple(each.response for each in self.approvals if each.response is not None)

    @property
    def changed_input(self) -> dict[str, Any] | None:
        """What a person has put in the place of the model's input; None where that stands."""
        return None if self._approved is None else self._approved.input

    @property
    def ran_input(self) -> dict[str, Any]:
        return self.input if self.changed_input is None else self.changed_input

    @property
    def may_run_since(self) -> tuple[int, str]:
        """The first attempt that may have had it run, and since when it may have."""
        if self.approvals:
            return self.approvals[-1].resumed, self.approvals[-1].resumed_at
        return self.attempt, self.at

    @property
    def _asked(self) -> tuple[events.InputAsked, ...]:
        return tuple(each.asked for each in self.approvals if each.asked is not None)

    @property
    def _decided(self) -> events.ApprovalDecided | None:
        return next((each.decided for each in self.approvals if each.asked is None), None)

    @property
    def _approved(self) -> events.ApprovalDecided | None:
        decided = self._decided
        return decided if decided is not None and decided.decision == "approved" else None


def _add_approval(
    calls: tuple[Call, ...], event: events.ApprovalRequested | events.ElicitationRequested
) -> tuple[Call, ...]:
    """A round's calls, once this was asked. All that is asked before anything is decided is of one wait."""
    earlier = [each for call in calls for each in call.approvals]
    if event.approval_id in (each.id for each in earlier):
        return calls
    goes_on = any(each.decided is None for each in earlier)
    wait = max((each.wait for each in earlier), default=-1) + (0 if goes_on else 1)
    return tuple(
        replace(call, approvals=(*call.approvals, CallApproval(event, wait=wait)))
        if call.call_id == event.call_id
        else call
        for call in calls
    )


def apply_decision(calls: tuple[Call, ...], event: events.ApprovalDecided) -> tuple[Call, ...]:
    """A round's calls, once this was decided, where it was not before."""

    def decided(approval: CallApproval) -> CallApproval:
        is_it = approval.id == event.approval_id and approval.decided is None
        return replace(approval, decided=event) if is_it else approval

    return _update_approvals(calls, decided)


def mark_resumed(calls: tuple[Call, ...], event: events.RunStarted) -> tuple[Call, ...]:
    """A round's calls, with the attempt noted in what was decided since the one before."""

    def resumed(approval: CallApproval) -> CallApproval:
        if approval.decided is None or approval.resumed != 0:
            return approval
        return replace(approval, resumed=event.attempt, resumed_at=event.at)

    return _update_approvals(calls, resumed)


def _update_approvals(
    calls: tuple[Call, ...], change: Callable[[CallApproval], CallApproval]
) -> tuple[Call, ...]:
    return tuple(
        replace(call, approvals=tuple(map(change, call.approvals))) if call.approvals else call
        for call in calls
    )


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One model call and the tools that it asked for; `blocks` is None while no whole reply is recorded."""

    number: int
    text: str = ""
    cuts: tuple[int, ...] = ()
    blocks: tuple[dict[str, Any], ...] | None = None
    stop_reason: str | None = None
    provider: str = "anthropic"
    usage: Usage = Usage()
    calls: tuple[Call, ...] = ()


Rounds = tuple[Round, ...]


def _update_round(rounds: Rounds, number: int, change: Callable[[Round], Round]) -> Rounds:
    """The rounds with number `number` changed; a new one is begun after the last."""
    for index in range(len(rounds) - 1, -1, -1):
        if rounds[index].number == number:
            return (*rounds[:index], change(rounds[index]), *rounds[index + 1 :])
    return (*rounds, change(Round(number=number)))


def update_fields(rounds: Rounds, number: int, **fields: Any) -> Rounds:
    return _update_round(rounds, number, lambda each: replace(each, **fields))


def update_last_calls(rounds: Rounds, change: Callable[[tuple[Call, ...]], tuple[Call, ...]]) -> Rounds:
    if not rounds or not rounds[-1].calls:
        return rounds
    return (*rounds[:-1], replace(rounds[-1], calls=change(rounds[-1].calls)))


def add_call(rounds: Rounds, number: int, call: Call) -> Rounds:
    return _update_round(rounds, number, partial(_append_call, call=call))


def update_call(rounds: Rounds, number: int, call_id: str, **fields: Any) -> Rounds:

    def change(each: Round) -> Round:
        calls = tuple(replace(call, **fields) if call.call_id == call_id else call for call in each.calls)
        return replace(each, calls=calls)

    return _update_round(rounds, number, change)


def add_request(rounds: Rounds, event: events.ApprovalRequested | events.ElicitationRequested) -> Rounds:
    return _update_round(
        rounds, event.round, lambda each: replace(each, calls=_add_approval(each.calls, event))
    )


def _append_call(each: Round, call: Call) -> Round:
    if any(known.call_id == call.call_id for known in each.calls):
        return each
    return replace(each, calls=(*each.calls, call))
