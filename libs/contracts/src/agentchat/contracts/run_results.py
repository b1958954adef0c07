"""Define the results of runs as the HTTP API has them."""

from typing import Literal

import msgspec

from agentchat.contracts.updates import Finished
from agentchat.contracts.values import (
    ApprovalNeeded,
    FinishedCall,
    Message,
    PendingClientCall,
    RunWarning,
    Source,
    Usage,
)

RunStatus = Literal[
    "queued", "running", "waiting_for_approval", "requires_action", "completed", "failed", "cancelled"
]


class RunTokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of all model calls of a run, in four kinds that do not overlap, and their sum.

    `reasoning` is the part of `output` that the model thought with, if the provider counts it.
    """

    input: int
    cache_read: int
    cache_write: int
    output: int
    total: int
    reasoning: int = 0


class ChatReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Reply of `POST /v1/chat`.

    `tool_calls` is present only if tools ran, `sources` only if retrieval ran, `model` only if another one
    than the agent's own answered.
    """

    conversation_id: str
    message: Message
    tool_calls: tuple[FinishedCall, ...] | None = None
    sources: tuple[Source, ...] | None = None
    usage: RunTokens | None = None
    model: str | None = None


class ActionRequired(msgspec.Struct, frozen=True, kw_only=True):
    """Reply of `POST /v1/chat` if the client has to run tools of its own.

    Send their results to `POST /v1/chat/{trace_id}/tool_results`.
    """

    status: Literal["requires_action"] = "requires_action"
    conversation_id: str
    trace_id: str
    client_tool_calls: tuple[PendingClientCall, ...]


class RunError(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a run has no reply. `code` is one of `contracts.errors`."""

    code: str
    message: str


class RunResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run's state, and its result: the fields of `ChatReply` once it has completed, or its `error`.

    `approvals` are those that it waits for, `client_tool_calls` those that its client has to run.
    """

    trace_id: str
    conversation_id: str
    status: RunStatus
    message: Message | None = None
    tool_calls: tuple[FinishedCall, ...] | None = None
    sources: tuple[Source, ...] | None = None
    usage: RunTokens | None = None
    model: str | None = None
    error: RunError | None = None
    approvals: tuple[ApprovalNeeded, ...] | None = None
    client_tool_calls: tuple[PendingClientCall, ...] | None = None
    warnings: tuple[RunWarning, ...] | None = None


def count_tokens(usage: Usage) -> RunTokens:
    """Return the tokens as the API has them."""
    return RunTokens(
        input=usage.input_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_creation_tokens,
        output=usage.output_tokens,
        total=usage.total,
        reasoning=usage.reasoning_tokens or 0,
    )


def build_chat_reply(conversation_id: str, finished: Finished) -> ChatReply:
    """Build the reply of a run that has finished."""
    return ChatReply(
        conversation_id=conversation_id,
        message=finished.message,
        tool_calls=finished.tool_calls or None,
        sources=finished.sources,
        usage=count_tokens(finished.usage),
        model=finished.model,
    )
