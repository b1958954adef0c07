"""The chunks of the AI SDK's UI message stream, version 1, as far as we send them (ai 6.0 and 7.0).

Its client stops at a type that it does not know; it passes over fields that it does not know.
"""

from typing import Any

import msgspec


class Chunk(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all."""


class Start(Chunk, frozen=True, kw_only=True, tag="start"):
    """The first chunk. `message_id` is the id of the reply that will be saved."""

    message_id: str
    message_metadata: dict[str, Any]


class StartStep(Chunk, frozen=True, kw_only=True, tag="start-step"):
    """A call of the model begins."""


class SourceUrl(Chunk, frozen=True, kw_only=True, tag="source-url"):
    """A passage that retrieval found."""

    source_id: str
    url: str
    title: str


class TextStart(Chunk, frozen=True, kw_only=True, tag="text-start"):
    """A text part of the message begins."""

    id: str


class TextDelta(Chunk, frozen=True, kw_only=True, tag="text-delta"):
    """More of a text part."""

    id: str
    delta: str


class TextEnd(Chunk, frozen=True, kw_only=True, tag="text-end"):
    """A text part is complete."""

    id: str


class ToolInputAvailable(Chunk, frozen=True, kw_only=True, tag="tool-input-available"):
    """The agent calls a tool. `dynamic`, as the client's code has no type for it; `provider_executed`, as the
    client is not to run it, nor to ask again once it has returned.
    """

    tool_call_id: str
    tool_name: str
    input: dict[str, Any]
    provider_executed: bool
    dynamic: bool


class ToolApprovalRequest(Chunk, frozen=True, kw_only=True, tag="tool-approval-request"):
    """A person has to allow the call, before it is run."""

    approval_id: str
    tool_call_id: str


class ElicitationData(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a tool asks for, next to the ToolApprovalRequest with that `approval_id`."""

    approval_id: str
    tool_call_id: str
    message: str
    requested_schema: dict[str, Any] | None = None
    url: str | None = None


class DataElicitation(Chunk, frozen=True, kw_only=True, tag="data-elicitation"):
    """A tool asks a person, in the middle of its call: a part of the application's own kind."""

    id: str
    data: ElicitationData


class ToolOutputAvailable(Chunk, frozen=True, kw_only=True, tag="tool-output-available"):
    """It has returned."""

    tool_call_id: str
    output: msgspec.Raw
    provider_executed: bool
    dynamic: bool


class ToolOutputError(Chunk, frozen=True, kw_only=True, tag="tool-output-error"):
    """It has failed."""

    tool_call_id: str
    error_text: str
    provider_executed: bool
    dynamic: bool


class ToolOutputDenied(Chunk, frozen=True, kw_only=True, tag="tool-output-denied"):
    """It was not run: the person has refused it."""

    tool_call_id: str


class FinishStep(Chunk, frozen=True, kw_only=True, tag="finish-step"):
    """A call of the model is over, and the tools that it asked for have returned."""


class Finish(Chunk, frozen=True, kw_only=True, tag="finish"):
    """The reply is saved; or, with the reason `tool-calls`, it goes on once a person has decided."""

    finish_reason: str
    message_metadata: dict[str, Any] | None = None


class Error(Chunk, frozen=True, kw_only=True, tag="error"):
    """There will be no reply here. The last chunk."""

    error_text: str


AnyChunk = (
    Start
    | StartStep
    | SourceUrl
    | TextStart
    | TextDelta
    | TextEnd
    | ToolInputAvailable
    | DataElicitation
    | ToolApprovalRequest
    | ToolOutputAvailable
    | ToolOutputError
    | ToolOutputDenied
    | FinishStep
    | Finish
    | Error
)
