"""The events of AG-UI, as far as we send them (@ag-ui/core 1.0.0 and 0.0.59).

The older client stops at a type that it does not know, and at an optional field that is null.
"""

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all."""


class RunStarted(Event, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """The first event."""

    thread_id: str
    run_id: str


class Custom(Event, frozen=True, kw_only=True, tag="CUSTOM"):
    """What the protocol has no event for: `run` has our ids, `sources` what retrieval found."""

    name: str
    value: Any


class _OfMessage(Event, frozen=True, kw_only=True):
    message_id: str


class TextMessageStart(_OfMessage, frozen=True, kw_only=True, tag="TEXT_MESSAGE_START"):
    """The text of a round begins."""

    role: str


class TextMessageContent(_OfMessage, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of it; never empty."""

    delta: str


class TextMessageEnd(_OfMessage, frozen=True, kw_only=True, tag="TEXT_MESSAGE_END"):
    """It is complete."""


class ToolCallStart(Event, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """The agent calls a tool, in its message of the round."""

    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class ToolCallArgs(Event, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """The complete input, as JSON."""

    tool_call_id: str
    delta: str


class ToolCallEnd(Event, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """The call is complete."""

    tool_call_id: str


class ToolCallResult(Event, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """What it returned, as JSON: a message of its own."""

    message_id: str
    tool_call_id: str
    content: str
    role: str


class TokenUsage(Event, frozen=True, kw_only=True):
    """Of all model calls of the run; cached tokens are input tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class Interrupt(Event, frozen=True, kw_only=True):
    """A tool call that a person has to allow, or whose tool asks them. The answer fits `response_schema`.

    0.0.59 takes no answer, nor any other run of the thread, once `expires_at` is over: it is not sent.
    """

    id: str
    reason: str
    tool_call_id: str
    message: str
    response_schema: dict[str, Any]
    expires_at: str | None = None
    metadata: dict[str, Any] | None = None


class Outcome(Event, frozen=True, kw_only=True):
    """Why a run ended: `cancelled`, or `interrupt`, to go on once these are answered."""

    type: str
    interrupts: tuple[Interrupt, ...] = ()


class RunFinished(Event, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """The reply is saved; or, with an outcome, the run was cancelled, or waits. The last event."""

    thread_id: str
    run_id: str
    outcome: Outcome | None = None
    usage: tuple[TokenUsage, ...] = ()
    result: dict[str, Any] | None = None


class RunError(Event, frozen=True, kw_only=True, tag="RUN_ERROR"):
    """There will be no reply here. The last event; and the body of every refusal."""

    message: str
    code: str


AnyEvent = (
    RunStarted
    | Custom
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallResult
    | RunFinished
    | RunError
)
