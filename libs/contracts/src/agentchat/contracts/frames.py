"""The live frames of a run on `chat.traces.<trace_id>`: a view of the log while it is being written.

Frames of one attempt are numbered by `seq` from 1; a reader who misses one repairs (docs/change/design.md 5).
`seq` 0 is unnumbered: frames outside an attempt, and a result that is announced again. What readers get
of them are `contracts.updates`.
"""

from typing import Any

import msgspec

from agentchat.contracts.values import ApprovalNeeded, Cut, Message, Source, Usage


class LiveFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all frames: `type` is the class name, `attempt` the run's attempt (0 before it has one)."""

    seq: int
    attempt: int


class Queued(LiveFrame, frozen=True, kw_only=True):
    """The thread is busy; this request waits in line. `attempt` is that of the request which waits."""


class Accepted(LiveFrame, frozen=True, kw_only=True):
    """The user message is saved and the run has started: the first frame of attempt 1."""

    conversation_id: str


class Refused(LiveFrame, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing was saved; `code` is one of `contracts.errors`. `attempt` is that of the request refused.

    `approvals` are those that the conversation waits for.
    """

    code: str
    message: str
    approvals: tuple[ApprovalNeeded, ...] = ()


class Resumed(LiveFrame, frozen=True, kw_only=True):
    """The first frame of every later attempt: it continues after the text sent so far.

    `offset` counts that text in code points over all rounds, `sha256` is the hex digest of its UTF-8 bytes.
    """

    conversation_id: str
    offset: int
    sha256: str


class SourcesFound(LiveFrame, frozen=True, kw_only=True):
    """Retrieval ran and found these."""

    sources: tuple[Source, ...]


class Delta(LiveFrame, frozen=True, kw_only=True):
    """The next piece of the reply's text; unnumbered, text that was sent before, for readers who missed it.

    `offset` counts the code points before it, over all rounds: a reader who missed frames knows by it where
    the text continues.
    """

    round: int
    text: str
    offset: int


class ToolCalled(LiveFrame, frozen=True, kw_only=True):
    """The agent calls a tool; sent after its round's append."""

    call_id: str
    name: str
    input: dict[str, Any]
    round: int


class ToolReturned(LiveFrame, frozen=True, kw_only=True):
    """A tool has returned. Its output is in the log: a round of large outputs would overrun the live view."""

    call_id: str
    is_error: bool


class Paused(LiveFrame, frozen=True, kw_only=True):
    """The run waits for a person to decide about tool calls; the log has which. The attempt's last frame.

    Unnumbered, it repeats that.
    """


class Alive(LiveFrame, frozen=True, kw_only=True):
    """The worker lives; sent every 5 s."""


class Completed(LiveFrame, frozen=True, kw_only=True, omit_defaults=True):
    """The reply is saved. `tool_calls` counts the tools that ran; their outputs are in the log.

    `usage` is the run's. `cut` says why the reply ends before its time.
    """

    message: Message
    tool_calls: int
    usage: Usage = Usage()
    cut: Cut | None = None


class Failed(LiveFrame, frozen=True, kw_only=True):
    """The run ended without a saved reply (failed, or cancelled with code `cancelled`)."""

    code: str
    message: str


Frame = (
    Queued
    | Accepted
    | Refused
    | Resumed
    | SourcesFound
    | Delta
    | ToolCalled
    | ToolReturned
    | Paused
    | Alive
    | Completed
    | Failed
)
