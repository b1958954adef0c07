"""Define what a reader of a run receives, before a form encodes it. Built from `frames` and the log.

The order: Started; RetrievedSources if retrieval ran; WarningUpdate; ReasoningUpdate, TextUpdate,
ToolStarted, ToolProgressed, ToolEnded and NextRound as they come; Finished or Broken. Round 1 begins with
Started. The reply will have the id `ids.derive_reply_id(trace_id)`.
"""

from typing import Any

import msgspec

from agentchat.contracts.files import StoredFile
from agentchat.contracts.values import (
    ApprovalNeeded,
    Cut,
    FinishedCall,
    Message,
    PendingClientCall,
    RunWarning,
    Source,
    Usage,
)


class Started(msgspec.Struct, frozen=True):
    """The user's message is saved: from here on the caller may know of the run."""


class RetrievedSources(msgspec.Struct, frozen=True):
    """Retrieval ran. Always before any text."""

    sources: tuple[Source, ...]


class WarningUpdate(msgspec.Struct, frozen=True):
    """The run continues without something, such as a tool server that cannot be reached."""

    warning: RunWarning


class TextUpdate(msgspec.Struct, frozen=True):
    """The next piece of the reply."""

    text: str


class ReasoningUpdate(msgspec.Struct, frozen=True):
    """The next piece of what the model thought in a round, before the round's text. No part of the reply.

    A reader who missed some of it gets the rest only if it follows what the reader has.
    """

    text: str
    round: int


class ToolStarted(msgspec.Struct, frozen=True):
    """The agent called a tool. With `needs_approval` it does not run before a person has approved it.

    `is_client`: the client runs it.
    """

    call_id: str
    name: str
    input: dict[str, Any]
    needs_approval: bool = False
    is_client: bool = False


class ToolProgressed(msgspec.Struct, frozen=True):
    """A running tool reports its progress. Live only, and only for a reader of outputs."""

    call_id: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolEnded(msgspec.Struct, frozen=True):
    """A tool call has returned. `output` parses as JSON.

    Frames do not carry outputs: a reader of the live run gets None here and the output in Finished. `files`
    come with the output.
    """

    call_id: str
    is_error: bool
    output: str | None = None
    files: tuple[StoredFile, ...] = ()


class NextRound(msgspec.Struct, frozen=True):
    """The model is called again with the results of its tools. `number` is at least 2 and grows.

    The text after it belongs to this round. Left out if the reader missed the beginning of the round.
    """

    number: int


class Finished(msgspec.Struct, frozen=True):
    """The reply is saved, and the texts so far are its content. The last update.

    `usage` adds up the run's model calls. `cut` says why the reply is incomplete. `sources` is None if no
    retrieval ran. `model` is the one that answered if the agent's own failed.
    """

    message: Message
    tool_calls: tuple[FinishedCall, ...]
    usage: Usage = Usage()
    cut: Cut | None = None
    sources: tuple[Source, ...] | None = None
    model: str | None = None


class Broken(msgspec.Struct, frozen=True):
    """The failure of a run: the last update. `code` is one of the error table.

    `local`: only the readers at this gateway get it; the run continues, or ended otherwise. `approvals` are
    those that the run or the conversation waits for, `calls` the ids of their tool calls, `usage` what a run
    that waits has used so far. `client_calls` are those that the run waits for the client to run.
    `running_trace_id`: the run because of which the request was refused.
    """

    code: str
    message: str
    local: bool = False
    approvals: tuple[ApprovalNeeded, ...] = ()
    calls: tuple[str, ...] = ()
    usage: Usage = Usage()
    client_calls: tuple[PendingClientCall, ...] = ()
    running_trace_id: str | None = None


Update = (
    Started
    | RetrievedSources
    | WarningUpdate
    | ReasoningUpdate
    | TextUpdate
    | ToolStarted
    | ToolProgressed
    | ToolEnded
    | NextRound
    | Finished
    | Broken
)

INTERRUPTED = Broken(
    "generation_interrupted", "The reply was interrupted and cannot go on where it stopped.", local=True
)
CANCELLED = Broken("cancelled", "The run was cancelled.")
STEERED = "steered"
"""The code of a request whose message has joined the run `running_trace_id`: its readers follow that run."""

REPLACED = Broken("interrupted", "A newer message took the place of this one.")


def wait_for_approvals(approvals: tuple[ApprovalNeeded, ...], calls: tuple[str, ...]) -> Broken:
    """Build the update of a run that waits for a person.

    Only this gateway's readers get it: the run's updates continue once a person has decided.
    """
    asks = any(each.elicitation is not None for each in approvals)
    message = "A tool asks a person for input." if asks else "A person has to approve a tool call."
    return Broken("approval_required", message, local=True, approvals=approvals, calls=calls)


def wait_for_client(calls: tuple[PendingClientCall, ...]) -> Broken:
    """Build the update of a run that waits for its client's tools, as `wait_for_approvals` does."""
    message = "Run the tools and send their results."
    return Broken("client_tools_required", message, local=True, client_calls=calls)
