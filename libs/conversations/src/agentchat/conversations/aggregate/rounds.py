"""The rounds of a run: each is one model call, its tool calls, and their approvals."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.files import StoredFile
from agentchat.contracts.tool_messages import InputResponse
from agentchat.contracts.values import ElicitationAction, InputAsked, Usage

Requested = events.ApprovalRequested | events.ElicitationRequested | events.ClientToolRequested
_ACTIONS: dict[str, ElicitationAction] = {"approved": "accept", "denied": "decline"}


class CallApproval(msgspec.Struct, frozen=True):
    """A question to a person about a call, or a client's turn to run it, and the decision, None until made.

    `wait` counts the earlier waits of the round. `resumed` is the first attempt that found it decided, 0
    before that, and `resumed_at` is when that attempt started.
    """

    requested: Requested
    decided: events.ApprovalDecided | None = None
    resumed: int = 0
    resumed_at: str = ""
    wait: int = 0

    @property
    def id(self) -> str:
        """The approval's id."""
        return self.requested.approval_id

    @property
    def is_client(self) -> bool:
        """True if the client has to run the tool."""
        return isinstance(self.requested, events.ClientToolRequested)

    @property
    def asked(self) -> InputAsked | None:
        """The question of the tool, None if the question is whether the call may run."""
        return self.requested.asked if isinstance(self.requested, events.ElicitationRequested) else None

    @property
    def response(self) -> InputResponse | None:
        """The answer that the tool is sent; None if there is no question of a tool or no decision."""
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

    `output` (a string that parses as JSON) is None until it returned; `quotes_server` and `files` are as in
    `ToolReturned`. `input` is the model's own. `approvals` are the questions to people about it, in order:
    whether it may run, then those of its tool. `is_client`: the client runs it, which is the only question
    then.
    """

    call_id: str
    at: str
    name: str
    input: dict[str, Any]
    output: str | None = None
    is_error: bool = False
    quotes_server: bool = False
    files: tuple[StoredFile, ...] = ()
    ms: int = 0
    attempt: int = 0
    needs_approval: bool = False
    is_client: bool = False
    approvals: tuple[CallApproval, ...] = ()

    @property
    def pending(self) -> tuple[CallApproval, ...]:
        """The approvals that are not decided."""
        return tuple(each for each in self.approvals if each.decided is None)

    @property
    def may_run(self) -> bool:
        """Return True if we run it, it is approved or needs no approval, and has no open question."""
        return (
            not self.is_client
            and (not self.needs_approval or self._approved is not None)
            and not self.pending
        )

    @property
    def is_denied(self) -> bool:
        """Return True if a person refused it."""
        decided = self._decided
        return decided is not None and decided.decision == "denied"

    @property
    def leg(self) -> int:
        """The number of times that its tool has asked a person instead of returning."""
        asked = self._asked
        return asked[-1].leg + 1 if asked else 0

    @property
    def request_state(self) -> str | None:
        """The state that its tool gave with its last question."""
        asked = self._asked
        return asked[-1].request_state if asked else None

    @property
    def responses(self) -> tuple[InputResponse, ...]:
        """The answers to all questions of its tool, which it receives when it is run again."""
        return tuple(each.response for each in self.approvals if each.response is not None)

    @property
    def changed_input(self) -> dict[str, Any] | None:
        """The input by which a person replaced the model's; None if it was not replaced."""
        return None if self._approved is None else self._approved.input

    @property
    def ran_input(self) -> dict[str, Any]:
        """The input that the call ran with."""
        return self.input if self.changed_input is None else self.changed_input

    @property
    def may_run_since(self) -> tuple[int, str]:
        """The first attempt that may have run it, and the time from which it was allowed."""
        if self.approvals:
            return self.approvals[-1].resumed, self.approvals[-1].resumed_at
        return self.attempt, self.at

    @property
    def _asked(self) -> tuple[InputAsked, ...]:
        return tuple(each.asked for each in self.approvals if each.asked is not None)

    @property
    def _decided(self) -> events.ApprovalDecided | None:
        return next((each.decided for each in self.approvals if each.asked is None), None)

    @property
    def _approved(self) -> events.ApprovalDecided | None:
        decided = self._decided
        return decided if decided is not None and decided.decision == "approved" else None


def _add_approval(calls: tuple[Call, ...], event: Requested) -> tuple[Call, ...]:
    """Add a question to a round's calls.

    All questions asked before a decision belong to one wait.
    """
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
    """Add a decision to a round's calls, unless it was decided before."""

    def decide(approval: CallApproval) -> CallApproval:
        is_it = approval.id == event.approval_id and approval.decided is None
        return replace(approval, decided=event) if is_it else approval

    return _update_approvals(calls, decide)


def mark_resumed(calls: tuple[Call, ...], event: events.RunStarted) -> tuple[Call, ...]:
    """Note the attempt in the approvals that were decided since the one before."""

    def resume(approval: CallApproval) -> CallApproval:
        if approval.decided is None or approval.resumed != 0:
            return approval
        return replace(approval, resumed=event.attempt, resumed_at=event.at)

    return _update_approvals(calls, resume)


def _update_approvals(
    calls: tuple[Call, ...], change: Callable[[CallApproval], CallApproval]
) -> tuple[Call, ...]:
    return tuple(
        replace(call, approvals=tuple(map(change, call.approvals))) if call.approvals else call
        for call in calls
    )


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One model call and its tool calls. `joined` are messages of the user that follow the calls' results.

    `blocks` is None until the complete reply is recorded. The hashes are as in `ModelReplied`.
    """

    number: int
    text: str = ""
    cuts: tuple[int, ...] = ()
    blocks: tuple[dict[str, Any], ...] | None = None
    stop_reason: str | None = None
    provider: str = "anthropic"
    model: str | None = None
    prefix_sha256: str | None = None
    tools_sha256: str | None = None
    usage: Usage = Usage()
    calls: tuple[Call, ...] = ()
    joined: tuple[events.MessageSaved, ...] = ()

    @property
    def reasoning(self) -> str:
        """The thinking before the text, as far as its provider shows it."""
        return extract_reasoning(self.blocks or ())


def extract_reasoning(blocks: Iterable[dict[str, Any]]) -> str:
    """Return the thinking before the text of a reply, as far as its provider shows it."""
    before = takewhile(lambda block: block.get("type") != "text", blocks)
    return "\n\n".join(text for block in before if (text := block.get("thinking")))


Rounds = tuple[Round, ...]


def _update_round(rounds: Rounds, number: int, change: Callable[[Round], Round]) -> Rounds:
    """Change the round with number `number`; a new one is added after the last."""
    for index in range(len(rounds) - 1, -1, -1):
        if rounds[index].number == number:
            return (*rounds[:index], change(rounds[index]), *rounds[index + 1 :])
    return (*rounds, change(Round(number=number)))


def update_fields(rounds: Rounds, number: int, **fields: Any) -> Rounds:
    """Set fields of a round."""
    return _update_round(rounds, number, lambda each: replace(each, **fields))


def update_last_calls(rounds: Rounds, change: Callable[[tuple[Call, ...]], tuple[Call, ...]]) -> Rounds:
    """Change the calls of the last round."""
    if not rounds or not rounds[-1].calls:
        return rounds
    return (*rounds[:-1], replace(rounds[-1], calls=change(rounds[-1].calls)))


def add_call(rounds: Rounds, number: int, call: Call) -> Rounds:
    """Add a call to a round, unless it is there."""
    return _update_round(rounds, number, partial(_append_call, call=call))


def update_call(rounds: Rounds, number: int, call_id: str, **fields: Any) -> Rounds:
    """Set fields of a call."""

    def change(each: Round) -> Round:
        calls = tuple(replace(call, **fields) if call.call_id == call_id else call for call in each.calls)
        return replace(each, calls=calls)

    return _update_round(rounds, number, change)


def add_request(rounds: Rounds, event: Requested) -> Rounds:
    """Add a question to a person to a call of its round."""
    return _update_round(
        rounds, event.round, lambda each: replace(each, calls=_add_approval(each.calls, event))
    )


def join_message(rounds: Rounds, message: events.MessageSaved) -> Rounds:
    """Add a user's message to the last round; a run without rounds stays as it is."""
    return (*rounds[:-1], replace(rounds[-1], joined=(*rounds[-1].joined, message))) if rounds else rounds


def _append_call(each: Round, call: Call) -> Round:
    if any(known.call_id == call.call_id for known in each.calls):
        return each
    return replace(each, calls=(*each.calls, call))


def list_tool_calls(reply: events.ModelReplied) -> tuple[events.ToolCalled, ...]:
    """List the tool calls of a reply as events to append with it."""
    return tuple(
        events.ToolCalled(
            trace_id=reply.trace_id,
            at=reply.at,
            round=reply.round,
            call_id=block["id"],
            name=block["name"],
            input=block["input"] if isinstance(block.get("input"), dict) else {},
        )
        for block in reply.blocks
        if block.get("type") == "tool_use"
    )
