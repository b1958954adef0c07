"""What a reader of a run receives, before it is encoded in a form: made of `frames` and of the log.

In order: Started, RetrievedSources where retrieval ran, Text, ToolStarted, ToolEnded and NextRound as they
come, Finished or Broken. Round 1 begins with Started. The reply will have the id `ids.reply_id(trace_id)`.
"""

from typing import Any

import msgspec

from agentchat.contracts.values import ApprovalNeeded, Cut, Message, Source, ToolCall, Usage


class Started(msgspec.Struct, frozen=True):
    """The user's message is saved: from here on the caller may know of the run."""


class RetrievedSources(msgspec.Struct, frozen=True):
    """Retrieval ran; always before any Text."""

    sources: tuple[Source, ...]


class Text(msgspec.Struct, frozen=True):
    """The next piece of the reply."""

    text: str


class ToolStarted(msgspec.Struct, frozen=True):
    """The agent called a tool."""

    call_id: str
    name: str
    input: dict[str, Any]


class ToolEnded(msgspec.Struct, frozen=True):
    """A tool that was called has returned; `output` parses as JSON.

    Frames do not carry outputs: a reader of the live run gets None, and the output in Finished.
    """

    call_id: str
    is_error: bool
    output: str | None = None


class NextRound(msgspec.Struct, frozen=True):
    """The model is called again, with what its tools returned; `number` is at least 2, and grows.

    Text after it is of this round. It is left out where the reader missed the beginning of the round.
    """

    number: int


class Finished(msgspec.Struct, frozen=True):
    """The reply is saved, and the Texts so far are its content. The last update.

    `usage` adds up the run's model calls. `cut` says why the reply ends before its time.
    """

    message: Message
    tool_calls: tuple[ToolCall, ...]
    usage: Usage = Usage()
    cut: Cut | None = None


class Broken(msgspec.Struct, frozen=True):
    """There will be no reply here; `code` is one of the error table. The last update.

    `local`: only for the readers at this gateway; the run continues, or has ended otherwise. `approvals` are
    those that the run, or the conversation, waits for, `calls` the ids of the calls that they are about.
    """

    code: str
    message: str
    local: bool = False
    approvals: tuple[ApprovalNeeded, ...] = ()
    calls: tuple[str, ...] = ()


Update = Started | RetrievedSources | Text | ToolStarted | ToolEnded | NextRound | Finished | Broken

INTERRUPTED = Broken(
    "generation_interrupted", "The reply was interrupted and cannot go on where it stopped.", local=True
)
CANCELLED = Broken("cancelled", "The run was cancelled.")


def paused(approvals: tuple[ApprovalNeeded, ...], calls: tuple[str, ...]) -> Broken:
    """The run waits for a person. Only this gateway sends it: the updates of the run continue after it."""
    asks = any(each.elicitation is not None for each in approvals)
    message = "A tool asks a person for input." if asks else "A person has to approve a tool call."
    return Broken("approval_required", message, local=True, approvals=approvals, calls=calls)
