"""Bodies and stream events of the HTTP API, exactly the fields of interface specification, section 5."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from agentchat.contracts import errors
from agentchat.contracts.values import (
    MAX_COMMENT,
    MAX_LABEL,
    ApprovalDecision,
    ApprovalNeeded,
    Decider,
    Elicitation,
    Message,
    Source,
    ToolCall,
)

OAUTH_CALLBACK = "/v1/oauth/callback"
"""Where authorization servers send a browser back to, below the public address of the gateways."""


class ChatBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of both chat endpoints; a null or absent conversation_id starts a new conversation."""

    message: str
    conversation_id: str | None = None
    prompt: str | None = None


class ChatReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Reply of `POST /v1/chat`; `tool_calls` is present only when tools ran."""

    conversation_id: str
    message: Message
    tool_calls: tuple[ToolCall, ...] | None = None


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of the SSE events of both forms."""


class MetaEvent(StreamEvent, frozen=True, kw_only=True, tag="meta"):
    """Form 1: first event."""

    conversation_id: str
    trace_id: str


class SourcesEvent(StreamEvent, frozen=True, kw_only=True, tag="sources"):
    """Form 1: only when retrieval ran, after meta and before the deltas."""

    sources: tuple[Source, ...]


class DeltaEvent(StreamEvent, frozen=True, kw_only=True, tag="delta"):
    """Both forms: the next piece of the reply."""

    content: str


class DoneEvent(StreamEvent, frozen=True, kw_only=True, tag="done"):
    """Form 1: final event."""

    conversation_id: str
    trace_id: str


class StartEvent(StreamEvent, frozen=True, kw_only=True, tag="start"):
    """Form 2: first event."""

    conversation_id: str


class ToolCallEvent(StreamEvent, frozen=True, kw_only=True, tag="tool_call"):
    """Form 2: the agent calls an MCP tool."""

    name: str
    input: dict[str, Any]


class MessageDoneEvent(StreamEvent, frozen=True, kw_only=True, tag="done"):
    """Form 2: final event, with the saved message and, when tools ran, their outputs."""

    message: Message
    tool_calls: tuple[ToolCall, ...] | None = None


class ErrorEvent(StreamEvent, frozen=True, kw_only=True, tag="error"):
    """Both forms: instead of normal completion; `code` is one of `contracts.errors`.

    `approvals` are those that the run waits for.
    """

    code: str
    message: str
    approvals: tuple[ApprovalNeeded, ...] | None = None


class Cancelling(msgspec.Struct, frozen=True, kw_only=True):
    """Reply of `POST /v1/chat/{trace_id}/cancel`: the run is being ended."""

    trace_id: str
    status: str = "cancelling"


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """One field that is wrong: `field` is its name or JSON path, or a header's name."""

    field: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An `application/problem+json` body (RFC 9457) with our code and trace.

    `conversation_id` is set with `server_shutdown` of a published request: the reply will be there.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    trace_id: str
    errors: tuple[FieldError, ...] | None = None
    approvals: tuple[ApprovalNeeded, ...] | None = None
    conversation_id: str | None = None


def problem(
    code: str,
    detail: str | None,
    trace_id: str,
    fields: Sequence[FieldError] = (),
    approvals: Sequence[ApprovalNeeded] = (),
) -> Problem:
    """The document of one of the codes; without a `detail` it has the code's advice."""
    row = errors.error(code)
    return Problem(
        type=f"urn:agent-chat:problem:{row.code}",
        title=row.title,
        status=row.status,
        detail=detail or row.advice,
        code=row.code,
        trace_id=trace_id,
        errors=tuple(fields) or None,
        approvals=tuple(approvals) or None,
    )


class ApprovalTool(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the tool's as the model saw it; `server` is the agent's name for its server."""

    name: str
    server: str


class DecisionMade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was decided, when (ISO 8601 UTC), and by whose credential; `on_behalf_of` is as that one sent it.

    `input` is what the tool was run with, where that was changed, or the answer to its elicitation.
    """

    decision: ApprovalDecision
    by: Decider
    at: str
    on_behalf_of: str | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None


ApprovalStatus = Literal["pending"] | ApprovalDecision


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call about which a person is to decide, or has. `input` is the model's own.

    With an `elicitation` the tool asks a person, in the middle of the call.
    """

    id: str
    status: ApprovalStatus
    trace_id: str
    conversation_id: str
    agent_id: str
    tool: ApprovalTool
    input: dict[str, Any]
    requested_at: str
    expires_at: str
    elicitation: Elicitation | None = None
    decision: DecisionMade | None = None


class DecisionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision about a tool call. `input` replaces all of the model's own in a call that is approved; to
    an elicitation it is the answer, which fits the requested schema.

    The model is shown the `reason` of a denial. `on_behalf_of` is recorded and not checked.
    """

    decision: Literal["approved", "denied"]
    input: dict[str, Any] | None = None
    reason: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    on_behalf_of: Annotated[str, msgspec.Meta(max_length=200)] | None = None


Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody thinks of a reply, in the place of what they gave before.

    There is one for each name in `on_behalf_of`, which is recorded and not checked, and one without.
    """

    score: Annotated[float, msgspec.Meta(ge=-1, le=1, description="From -1 (bad) to 1 (good).")]
    label: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_LABEL)] | None = None
    comment: Annotated[str, msgspec.Meta(max_length=MAX_COMMENT)] | None = None
    on_behalf_of: Name | None = None


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback on a reply as it is stored. `by` was authenticated."""

    message_id: str
    conversation_id: str
    trace_id: str
    score: float
    label: str | None
    comment: str | None
    on_behalf_of: str | None
    by: Decider
    at: str


class FeedbackSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many have given feedback on a reply, the mean of their scores, and the newest of it."""

    count: int
    mean_score: float
    newest: Feedback


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list; `next_cursor` is null on the last one."""

    data: tuple[msgspec.Raw, ...]
    next_cursor: str | None = None
