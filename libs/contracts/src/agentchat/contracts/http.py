"""Define bodies and stream events of the HTTP API: the fields of the specification, section 5."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from agentchat.contracts import errors
from agentchat.contracts.files import FileLink
from agentchat.contracts.run_results import RunTokens
from agentchat.contracts.values import (
    MAX_EXTERNAL_ID,
    MAX_PAIRS,
    MAX_TITLE,
    MAX_VALUE,
    ApprovalNeeded,
    ClientTool,
    Cut,
    FinishedCall,
    Message,
    OnBusyName,
    PendingClientCall,
    Source,
)

OAUTH_CALLBACK = "/v1/oauth/callback"
"""The path, below the gateways' public address, to which authorization servers send the browser back."""


Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
TopP = Annotated[float, msgspec.Meta(ge=0, le=1)]
MaxTokens = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_StopSequence = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
Stop = _StopSequence | Annotated[tuple[_StopSequence, ...], msgspec.Meta(max_length=4)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class RunParameters(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A request's own parameters for the model's calls.

    The agent uses those in its `request_parameters`.
    """

    temperature: Temperature | None = None
    top_p: TopP | None = None
    max_tokens: MaxTokens | None = None
    stop: Stop | None = None
    seed: Seed | None = None
    reasoning_effort: ReasoningEffort | None = None
    parallel_tool_calls: bool | None = None


PAIRS = msgspec.Meta(
    max_length=2 * MAX_PAIRS,
    extra_json_schema={"additionalProperties": {"type": ["string", "null"], "maxLength": MAX_VALUE}},
)
"""The metadata of a body has pairs of texts; null removes one."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that a request of any protocol may bring for its run."""

    context: Annotated[
        dict[str, Any] | None,
        msgspec.Meta(description="For the variables of the agent's prompt and for its tools; up to 4 KiB."),
    ] = None
    secrets: Annotated[
        dict[str, str] | None,
        msgspec.Meta(
            description="By name, for headers of tool servers; sealed until the run ends. Up to 8 of 4 KiB."
        ),
    ] = None

    def __repr__(self) -> str:
        """Leave out the values: they may be secret."""
        return f"{type(self).__name__}({', '.join(self.__struct_fields__)})"


ClientTools = Annotated[
    tuple[ClientTool, ...],
    msgspec.Meta(max_length=64, description="Tools that the client runs; up to 64 KiB."),
]
ToolChoice = Annotated[
    str,
    msgspec.Meta(description="Of the first reply: auto, none (of the client), required, or a client tool."),
]


class Attachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the message: an uploaded one, or one that the service fetches from an https or data URL."""

    file_id: str | None = None
    url: str | None = None


class ChatBody(RunOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of both chat endpoints. A null or absent conversation_id starts a new conversation.

    `message` may be empty next to `attachments`. `prompt` replaces the agent's system prompt, `instructions`
    are added to it. Only a new conversation takes `title`, `metadata`, and `external_id`, the account's own
    name for it.
    """

    message: str
    conversation_id: str | None = None
    prompt: str | None = None
    instructions: str | None = None
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TITLE)] | None = None
    metadata: Annotated[dict[str, Any], PAIRS] | None = None
    external_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_EXTERNAL_ID)] | None = None
    parameters: RunParameters | None = None
    client_tools: ClientTools = ()
    tool_choice: ToolChoice | None = None
    attachments: Annotated[
        tuple[Attachment, ...], msgspec.Meta(max_length=20, description="Files of the message.")
    ] = ()
    on_busy: OnBusyName | None = None


class SubmittedResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of one call of a client's tool; `output` is any JSON."""

    id: str
    output: Any
    is_error: bool = False


class ToolResultsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The results of all calls that the run waits for."""

    results: Annotated[tuple[SubmittedResult, ...], msgspec.Meta(min_length=1, max_length=64)]


class SseEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of the SSE events of all forms."""


class MetaEvent(SseEvent, frozen=True, kw_only=True, tag="meta"):
    """Form 1: first event."""

    conversation_id: str
    trace_id: str


class SourcesEvent(SseEvent, frozen=True, kw_only=True, tag="sources"):
    """Form 1 and `full`: the sources, sent only if retrieval ran, before the deltas."""

    sources: tuple[Source, ...]


class DeltaEvent(SseEvent, frozen=True, kw_only=True, tag="delta"):
    """All forms: the next piece of the reply."""

    content: str


class ReasoningEvent(SseEvent, frozen=True, kw_only=True, tag="reasoning"):
    """`full`: the next piece of what the model thinks before the text that follows, if the agent shows it."""

    content: str


class DoneEvent(SseEvent, frozen=True, kw_only=True, tag="done"):
    """Form 1: final event."""

    conversation_id: str
    trace_id: str


class StartEvent(SseEvent, frozen=True, kw_only=True, tag="start"):
    """Form 2 and `full`: first event. `full` has the trace and the id that the reply will have."""

    conversation_id: str
    trace_id: str | None = None
    message_id: str | None = None


class ToolCallEvent(SseEvent, frozen=True, kw_only=True, tag="tool_call"):
    """Form 2 and `full`: the agent calls an MCP tool. `id` is that of its entry in `done.tool_calls`."""

    name: str
    input: dict[str, Any]
    id: str


class ClientToolCallEvent(SseEvent, frozen=True, kw_only=True, tag="client_tool_call"):
    """All forms: the agent calls a tool of `client_tools`.

    The stream ends with `client_tools_required`, an error in forms 1 and 2, once all other tools returned.
    """

    name: str
    input: dict[str, Any]
    id: str


class ToolProgressEvent(SseEvent, frozen=True, kw_only=True, tag="tool_progress", omit_defaults=True):
    """`full`: a running tool reports its progress, in a unit of its own. Not repeated to later readers."""

    id: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolResultEvent(SseEvent, frozen=True, kw_only=True, tag="tool_result"):
    """`full`: a tool has returned. `output` parses as JSON, `files` are the images and files it returned."""

    id: str
    output: str
    is_error: bool
    files: tuple[FileLink, ...] = ()


class ApprovalRequiredEvent(SseEvent, frozen=True, kw_only=True, tag="approval_required"):
    """`full`: last event of a run that waits for a person, instead of `done`.

    After the decision `GET /v1/chat/{trace_id}/events` has the rest.
    """

    conversation_id: str
    message: str
    approvals: tuple[ApprovalNeeded, ...]
    usage: RunTokens


class ClientToolsRequiredEvent(SseEvent, frozen=True, kw_only=True, tag="client_tools_required"):
    """`full`: last event of a run that waits for its client's tools, instead of `done`.

    After the results `GET /v1/chat/{trace_id}/events` has the rest.
    """

    conversation_id: str
    message: str
    client_tool_calls: tuple[PendingClientCall, ...]
    usage: RunTokens


class WarningEvent(SseEvent, frozen=True, kw_only=True, tag="warning"):
    """`full`: the run continues without something, such as the tool server that `subject` names."""

    code: str
    subject: str
    message: str


class MessageDoneEvent(SseEvent, frozen=True, kw_only=True, tag="done"):
    """Form 2 and `full`: final event, with the saved message.

    If tools ran it has their outputs, and if retrieval ran the sources that the text cites as `[1]`. `full`
    always has both, the usage, in `cut` why the reply is incomplete, and in `model` the one that answered if
    the agent's own failed.
    """

    message: Message
    tool_calls: tuple[FinishedCall, ...] | None = None
    sources: tuple[Source, ...] | None = None
    usage: RunTokens | None = None
    cut: Cut | None = None
    model: str | None = None


class ErrorEvent(SseEvent, frozen=True, kw_only=True, tag="error"):
    """All forms: replaces normal completion. `code` is one of `contracts.errors`.

    `approvals` are those that the run waits for. `full` has the conversation.
    """

    code: str
    message: str
    approvals: tuple[ApprovalNeeded, ...] | None = None
    conversation_id: str | None = None


class Cancelling(msgspec.Struct, frozen=True, kw_only=True):
    """Reply of `POST /v1/chat/{trace_id}/cancel`: the run is being ended."""

    trace_id: str
    status: str = "cancelling"


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """One invalid field: `field` is its name or JSON path, or the name of a header."""

    field: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An `application/problem+json` body (RFC 9457) with our code and trace.

    `conversation_id` is set once the message is saved, or may be: read or delete the conversation by it.
    `running_trace_id`: the run because of which the conversation is busy.
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
    running_trace_id: str | None = None


def build_problem(
    code: str,
    detail: str | None,
    trace_id: str,
    fields: Sequence[FieldError] = (),
    approvals: Sequence[ApprovalNeeded] = (),
    conversation_id: str | None = None,
) -> Problem:
    """Build the problem document of a code. Without `detail` it has the code's advice."""
    row = errors.get_error_code(code)
    return Problem(
        type=f"urn:agent-chat:problem:{row.code}",
        title=row.title,
        status=row.status,
        detail=detail or row.advice,
        code=row.code,
        trace_id=trace_id,
        errors=tuple(fields) or None,
        approvals=tuple(approvals) or None,
        conversation_id=conversation_id,
    )
