"""Define and decode the events of a stream, in both forms (interface specification, section 5).

Form 1 is Meta, Sources, Delta, Done; form 2 is Start, Delta, ToolCall, MessageDone. An `error` event is
raised as ChatError. Unknown types and fields are ignored, since the service may add some.
"""

from typing import Any

import msgspec

from agentchat.client.models import Approval, Message, Source, ToolRun


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events."""


class Meta(StreamEvent, frozen=True, kw_only=True, tag="meta"):
    """Form 1, first. Store `conversation_id` at once: needed to continue after a cut."""

    conversation_id: str
    trace_id: str


class Sources(StreamEvent, frozen=True, kw_only=True, tag="sources"):
    """Form 1: only when retrieval ran, before the deltas."""

    sources: tuple[Source, ...]


class Delta(StreamEvent, frozen=True, kw_only=True, tag="delta"):
    """The next piece of the reply."""

    content: str


class Done(StreamEvent, frozen=True, kw_only=True, tag="done"):
    """Form 1, last: the reply is saved."""

    conversation_id: str
    trace_id: str


class Start(StreamEvent, frozen=True, kw_only=True, tag="start"):
    """Form 2, first. Store `conversation_id` at once."""

    conversation_id: str


class ToolCall(StreamEvent, frozen=True, kw_only=True, tag="tool_call"):
    """Form 2: the agent calls a tool; MessageDone has its output, under the same `id`."""

    name: str
    input: dict[str, Any]
    id: str


class MessageDone(StreamEvent, frozen=True, kw_only=True, tag="done"):
    """Form 2, last: the saved reply, and the tools that ran."""

    message: Message
    tool_calls: tuple[ToolRun, ...] = ()
    sources: tuple[Source, ...] = ()


class Failure(StreamEvent, frozen=True, kw_only=True, tag="error"):
    """An `error` event; callers get it as ChatError."""

    code: str
    message: str
    approvals: tuple[Approval, ...] = ()


Event = Meta | Sources | Delta | Done | Start | ToolCall | MessageDone


class _Head(msgspec.Struct, frozen=True):
    """The fields that tell events apart: both forms have a `done`, only form 2's has a message."""

    type: str
    message: Any = None


_head = msgspec.json.Decoder(_Head)
_message_done = msgspec.json.Decoder(MessageDone)
_others: dict[str, msgspec.json.Decoder[Event | Failure]] = {
    "meta": msgspec.json.Decoder(Meta),
    "sources": msgspec.json.Decoder(Sources),
    "delta": msgspec.json.Decoder(Delta),
    "done": msgspec.json.Decoder(Done),
    "start": msgspec.json.Decoder(Start),
    "tool_call": msgspec.json.Decoder(ToolCall),
    "error": msgspec.json.Decoder(Failure),
}


def decode(data: bytes) -> Event | Failure | None:
    """Decode one event from its JSON; None for an unknown type. Raises ValueError, RecursionError."""
    head = _head.decode(data)
    if head.type == "done" and head.message is not None:
        return _message_done.decode(data)
    decoder = _others.get(head.type)
    return None if decoder is None else decoder.decode(data)
