"""Define a request for a run, independent of any protocol."""

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from agentchat.contracts.approval_bodies import DecisionBody
from agentchat.contracts.messages import RunInput
from agentchat.contracts.values import ClientToolResult
from agentchat.gateway.attachments.requested_attachment import RequestedAttachment

Reason = Annotated[str | None, msgspec.Meta(extra_json_schema={"maxLength": 2000})]
"""The reason of a decision in a body; `decide_approval.clean_decision` checks its length."""


class ViewKind(NamedTuple):
    """The parts of a run that a protocol shows.

    streaming: Text as it comes; otherwise only the complete reply.
    outputs: The outputs of tools as they return, and all updates in the order of the canonical stream.
    reasoning: What the model thinks, if the agent shows it.
    calls_at_end: The last update has the tool calls with their outputs, which are read from the log.
    """

    streaming: bool = True
    outputs: bool = False
    calls_at_end: bool = True
    reasoning: bool = False


STREAM = ViewKind()


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation begins with what `source_id` has up to the message `at`, the reply of a run."""

    source_id: str
    at: str
    trace_id: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision about a tool call. A dismissal denies it, and may come too late."""

    approval_id: str
    body: DecisionBody
    is_dismissal: bool = False


def build_verdict(
    approval_id: str, *, approved: bool, given: dict[str, Any] | None = None, reason: str | None = None
) -> Verdict:
    """Build a decision; `given` is the call's new input, or the answer to its tool's question."""
    decision: Literal["approved", "denied"] = "approved" if approved else "denied"
    body = DecisionBody(decision=decision, input=given if approved else None, reason=reason or None)
    return Verdict(approval_id=approval_id, body=body)


class RunRequest(RunInput, frozen=True, kw_only=True):
    """A request for a run; the fields of RunInput are as in ChatRequested.

    conversation_id: None for a new conversation; lists do not show it if `unlisted`.
    shown_sha256: If given, it is what a repeated Idempotency-Key must agree with.
    fork: If it cannot be made, a new conversation begins with the `history`.
    secrets: Kept apart from the request, sealed, until the run ends (`directory.run_secrets`).
    key: An Idempotency-Key from the body, for a request without the header.
    returns_queued: The run counts as started while its request waits for its conversation.
    on_busy: As in ChatRequested, unchecked; None: the header X-On-Busy.
    verdicts: Decisions: the run that waits for them continues, and there is no new message. `decides_all`:
        they must be all that it waits for.
    tool_results: Results of the client's tools: the run that waits for them continues, likewise.
    attachments: The files of the message, and those of the `history` that are not stored yet.
    """

    view: ViewKind
    conversation_id: str | None = None
    unlisted: bool = False
    fork: Fork | None = None
    key: str | None = None
    secrets: dict[str, str] | None = None
    on_busy: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    decides_all: bool = False
    returns_queued: bool = False
    tool_results: tuple[ClientToolResult, ...] = ()
    attachments: tuple[RequestedAttachment, ...] = ()

    def __repr__(self) -> str:
        """Leave out the values: some are secret."""
        return f"RunRequest(form={self.form!r}, agent_id={self.agent_id!r})"
