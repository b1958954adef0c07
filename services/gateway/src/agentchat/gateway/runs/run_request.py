"""A request for a run, of any protocol."""

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from agentchat.contracts.http import DecisionBody
from agentchat.contracts.values import ShownMessage

Reason = Annotated[str | None, msgspec.Meta(extra_json_schema={"maxLength": 2000})]
"""Of a decision, as a body has it: `decide_approval.clean_decision` checks its length."""


class ViewKind(NamedTuple):
    """What a protocol shows of a run.

    streaming: Text as it comes; otherwise only the complete reply.
    outputs: The outputs of tools as they return, and all updates in the order of the canonical stream.
    calls_at_end: The last update has the tool calls with their outputs, which are read from the log.
    """

    streaming: bool = True
    outputs: bool = False
    calls_at_end: bool = True


STREAM = ViewKind()


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation begins with what `source_id` has up to the message `at`, the reply of a run."""

    source_id: str
    at: str
    trace_id: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of a tool call. A dismissal answers nothing, and may come too late."""

    approval_id: str
    body: DecisionBody
    is_dismissal: bool = False


def build_verdict(
    approval_id: str, *, approved: bool, given: dict[str, Any] | None = None, reason: str | None = None
) -> Verdict:
    """Build what a person says of a tool call; `given`: its new input, or what its tool asks for."""
    decision: Literal["approved", "denied"] = "approved" if approved else "denied"
    body = DecisionBody(decision=decision, input=given if approved else None, reason=reason or None)
    return Verdict(approval_id=approval_id, body=body)


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, in terms of no protocol.

    form: The name that stored events have for the protocol.
    conversation_id: None for a new conversation, which no list shows where it is `unlisted`.
    history, after, instructions, output_schema, shown_sha256, is_task: As ChatRequested has them. Where
        `shown_sha256` is given, it is what a repeated Idempotency-Key must agree with.
    fork: Where it cannot be made, a new conversation begins with the `history`.
    key: An Idempotency-Key that the body has, for a request without the header.
    verdicts: With them nothing new is asked: the run that waits for them continues. `decides_all`: they are
        all that it waits for.
    """

    form: str
    agent_id: str
    message: str = ""
    view: ViewKind
    conversation_id: str | None = None
    prompt: str | None = None
    unlisted: bool = False
    history: tuple[ShownMessage, ...] = ()
    after: str | None = None
    fork: Fork | None = None
    instructions: str | None = None
    shown_sha256: str | None = None
    output_schema: dict[str, Any] | None = None
    model: str | None = None
    key: str | None = None
    is_task: bool = False
    verdicts: tuple[Verdict, ...] = ()
    decides_all: bool = False
