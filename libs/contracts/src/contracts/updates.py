"""What a reader of a run is told, whatever form it is then given.

In order: Started, Sources where retrieval ran, Text, ToolStarted, ToolReturned and NextRound as they come,
Finished or Broken. Round 1 begins with Started. The reply will have the id `ids.reply_id(trace_id)`.
"""

from typing import Any

import msgspec

from contracts.values import ApprovalNeeded, Cut, Message, Source, ToolCall, Usage


class Started(msgspec.Struct, frozen=True):
    """The user's message is saved: from here on the caller may know of the run."""


class Sources(msgspec.Struct, frozen=True):
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


class ToolReturned(msgspec.Struct, frozen=True):
    """A tool that was called has returned; `output` parses as JSON.

    Frames do not carry outputs: it is None for a reader who hears of it as it happens, and then in Finished.
    """

    call_id: str
    is_error: bool
    output: str | None = None


class NextRound(msgspec.Struct, frozen=True):
    """The model is called again, with what its tools returned; `number` is at least 2, and grows.

    Text after it is of this round. One is left out where a reader missed the place where it began.
    """

    number: int


class Finished(msgspec.Struct, frozen=True):
    """The reply is saved, and the Texts so far are its content. The last update.

    `usage` adds up the run's model calls; nothing where a worker of before told of the end. `cut` says why
    the reply ends before its time.
    """

    message: Message
    tool_calls: tuple[ToolCall, ...]
    usage: Usage = Usage()
    cut: Cut | None = None


class Broken(msgspec.Struct, frozen=True):
    """There will be no reply here; `code` is one of the error table. The last update.

    `local`: that is of this reader and his gateway alone; the run goes on, or has ended otherwise.
    `approvals` are those that the run, or the conversation, waits for, `calls` the ids of the calls that they
    are about.
    """

    code: str
    message: str
    local: bool = False
    approvals: tuple[ApprovalNeeded, ...] = ()
    calls: tuple[str, ...] = ()


Update = Started | Sources | Text | ToolStarted | ToolReturned | NextRound | Finished | Broken

INTERRUPTED = Broken(
    "generation_interrupted", "The reply was interrupted and cannot go on where it stopped.", local=True
)
CANCELLED = Broken("cancelled", "The run was cancelled.")


def paused(approvals: tuple[ApprovalNeeded, ...], calls: tuple[str, ...]) -> Broken:
    """The run waits for a person. It is told of by its gateway alone: the run's own updates go on after."""
    asks = any(each.elicitation is not None for each in approvals)
    message = "A tool asks a person for input." if asks else "A person has to approve a tool call."
    return Broken("approval_required", message, local=True, approvals=approvals, calls=calls)
