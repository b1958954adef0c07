"""Define and decode the events of a stream, in all forms.

The form `full` is Start, Sources, Warned, Reasoning, Delta, ToolCall, ToolProgress, ToolResult, MessageDone.
Form 1 is Meta, Sources, Delta, Done; form 2 Start, Delta, ToolCall, MessageDone (specification, section 5).
The events `error`, `approval_required` and `client_tools_required` are raised as ChatError. Unknown types and
fields are ignored, since the service may add some.
"""

from typing import Any

import msgspec

from agentchat.client.models import Approval, ClientCall, File, Message, Source, TokenCounts, ToolRun


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of all events."""


class Meta(StreamEvent, frozen=True, kw_only=True, tag="meta"):
    """Form 1, first. Store `conversation_id` at once: needed to continue after a cut."""

    conversation_id: str
    trace_id: str


class Sources(StreamEvent, frozen=True, kw_only=True, tag="sources"):
    """Form 1 and `full`: only when retrieval ran, before the deltas."""

    sources: tuple[Source, ...]


class Delta(StreamEvent, frozen=True, kw_only=True, tag="delta"):
    """The next piece of the reply."""

    content: str


class Reasoning(StreamEvent, frozen=True, kw_only=True, tag="reasoning"):
    """`full`: the next piece of what the model thinks before it replies, if the agent shows it."""

    content: str


class Done(StreamEvent, frozen=True, kw_only=True, tag="done"):
    """Form 1, last: the reply is saved."""

    conversation_id: str
    trace_id: str


class Start(StreamEvent, frozen=True, kw_only=True, tag="start"):
    """Form 2 and `full`, first. Store `conversation_id` at once. Only `full` has the other fields."""

    conversation_id: str
    trace_id: str | None = None
    message_id: str | None = None


class ToolCall(StreamEvent, frozen=True, kw_only=True, tag="tool_call"):
    """Form 2 and `full`: the agent calls a tool; its output follows under the same `id`."""

    name: str
    input: dict[str, Any]
    id: str


class ClientToolCall(StreamEvent, frozen=True, kw_only=True, tag="client_tool_call"):
    """The agent calls a tool of the request's `client_tools`: the client has to run it."""

    name: str
    input: dict[str, Any]
    id: str


class ToolProgress(StreamEvent, frozen=True, kw_only=True, tag="tool_progress"):
    """`full`: a running tool reports its progress, in a unit of its own."""

    id: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolResult(StreamEvent, frozen=True, kw_only=True, tag="tool_result"):
    """`full`: a tool has returned; `files` are the images and files in its result."""

    id: str
    output: str
    is_error: bool
    files: tuple[File, ...] = ()


class Warned(StreamEvent, frozen=True, kw_only=True, tag="warning"):
    """`full`: the reply is made without something, such as the tool server that `subject` names."""

    code: str
    subject: str
    message: str


class MessageDone(StreamEvent, frozen=True, kw_only=True, tag="done"):
    """Form 2 and `full`, last: the saved reply, and the tools that ran. Only `full` has the usage."""

    message: Message
    tool_calls: tuple[ToolRun, ...] = ()
    sources: tuple[Source, ...] = ()
    usage: TokenCounts | None = None
    cut: str | None = None
    model: str | None = None


class Failure(StreamEvent, frozen=True, kw_only=True, tag="error"):
    """An `error` event; callers get it as ChatError."""

    code: str
    message: str
    approvals: tuple[Approval, ...] = ()
    conversation_id: str | None = None


class ApprovalRequired(StreamEvent, frozen=True, kw_only=True, tag="approval_required"):
    """`full`, last: the run waits for a person. Callers get it as ChatError."""

    conversation_id: str
    message: str
    approvals: tuple[Approval, ...]
    usage: TokenCounts


class ClientToolsRequired(StreamEvent, frozen=True, kw_only=True, tag="client_tools_required"):
    """`full`, last: the run waits for the client's tools. Callers get it as ChatError."""

    conversation_id: str
    message: str
    client_tool_calls: tuple[ClientCall, ...]
    usage: TokenCounts


Event = (
    Meta
    | Sources
    | Warned
    | Reasoning
    | Delta
    | Done
    | Start
    | ToolCall
    | ClientToolCall
    | ToolProgress
    | ToolResult
    | MessageDone
)
Refusal = Failure | ApprovalRequired | ClientToolsRequired


class _Head(msgspec.Struct, frozen=True):
    """The fields that tell events apart: form 1 has a `done` without a message."""

    type: str
    message: Any = None


_head = msgspec.json.Decoder(_Head)
_message_done = msgspec.json.Decoder(MessageDone)
_others: dict[str, msgspec.json.Decoder[Event | Refusal]] = {
    "meta": msgspec.json.Decoder(Meta),
    "sources": msgspec.json.Decoder(Sources),
    "delta": msgspec.json.Decoder(Delta),
    "reasoning": msgspec.json.Decoder(Reasoning),
    "done": msgspec.json.Decoder(Done),
    "start": msgspec.json.Decoder(Start),
    "tool_call": msgspec.json.Decoder(ToolCall),
    "client_tool_call": msgspec.json.Decoder(ClientToolCall),
    "tool_progress": msgspec.json.Decoder(ToolProgress),
    "tool_result": msgspec.json.Decoder(ToolResult),
    "warning": msgspec.json.Decoder(Warned),
    "approval_required": msgspec.json.Decoder(ApprovalRequired),
    "client_tools_required": msgspec.json.Decoder(ClientToolsRequired),
    "error": msgspec.json.Decoder(Failure),
}


def decode(data: bytes) -> Event | Refusal | None:
    """Decode one event from its JSON; None for an unknown type. Raises ValueError, RecursionError."""
    head = _head.decode(data)
    if head.type == "done" and head.message is not None:
        return _message_done.decode(data)
    decoder = _others.get(head.type)
    return None if decoder is None else decoder.decode(data)
