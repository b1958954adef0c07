"""Define a request for a run, in terms of no protocol."""

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from agentchat.contracts.http import DecisionBody
from agentchat.contracts.values import ClientTool, ClientToolResult, ShownMessage
from agentchat.gateway.attachments.requested_attachment import RequestedAttachment

Reason = Annotated[str | None, msgspec.Meta(extra_json_schema={"maxLength": 2000})]
"""Of a decision, as a body has it: `decide_approval.clean_decision` checks its length."""


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


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a run.

    external_id, title, metadata: Of a new conversation, as in ChatRequested.
    form: The name that stored events have for the protocol.
    conversation_id: None for a new conversation; lists do not show it if `unlisted`.
    history, after, instructions, output_schema, parameters, context, client_tools, tool_choice,
        shown_sha256, is_task: As in ChatRequested. `shown_sha256`, if given, is what a repeated
        Idempotency-Key must agree with.
    fork: If it cannot be made, a new conversation begins with the `history`.
    secrets: Kept apart from the request, sealed, until the run ends (`directory.run_secrets`).
    key: An Idempotency-Key from the body, for a request without the header.
    depth: As in ChatRequested.
    returns_queued: The run counts as started while its request waits for its conversation.
    on_busy: As in ChatRequested, unchecked; None: the header X-On-Busy.
    verdicts: Decisions: the run that waits for them continues, and there is no new message. `decides_all`:
        they must be all that it waits for.
    tool_results: Results of the client's tools: the run that waits for them continues, likewise.
    attachments: The files of the message, and those of the `history` that are not stored yet.
    """

    form: str
    agent_id: str
    message: str = ""
    view: ViewKind
    conversation_id: str | None = None
    prompt: str | None = None
    external_id: str | None = None
    title: str | None = None
    metadata: dict[str, str] = {}
    unlisted: bool = False
    history: tuple[ShownMessage, ...] = ()
    after: str | None = None
    fork: Fork | None = None
    instructions: str | None = None
    shown_sha256: str | None = None
    output_schema: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    client_tools: tuple[ClientTool, ...] = ()
    tool_choice: str | None = None
    model: str | None = None
    key: str | None = None
    secrets: dict[str, str] | None = None
    is_task: bool = False
    depth: int = 0
    on_busy: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    decides_all: bool = False
    returns_queued: bool = False
    tool_results: tuple[ClientToolResult, ...] = ()
    attachments: tuple[RequestedAttachment, ...] = ()

    def __repr__(self) -> str:
        """Leave out the values: some are secret."""
        return f"RunRequest(form={self.form!r}, agent_id={self.agent_id!r})"
