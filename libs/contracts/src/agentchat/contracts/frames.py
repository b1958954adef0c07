"""Define the live frames of a run, on `chat.traces.<trace_id>`: a view of the log while it is written.

Published by `bus.trace_channel.Traces.publish_frame`, followed by the gateway. Frames of one
attempt are numbered by `seq` from 1. A reader that misses one reads the log (docs/change/rules.md 4). `seq`
0 is unnumbered: frames outside an attempt, and results that are announced again. What API clients get is
defined in `contracts.updates`.
"""

from typing import Any

import msgspec

from agentchat.contracts.values import ApprovalNeeded, Cut, Message, RunWarning, Source, Usage


class LiveFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all frames. `type` names the frame; `attempt` is the run's attempt, 0 before it has one."""

    seq: int
    attempt: int


class Queued(LiveFrame, frozen=True, kw_only=True):
    """The conversation is busy, so this request waits. `attempt` is that of the waiting request."""


class Accepted(LiveFrame, frozen=True, kw_only=True):
    """The user message is saved and the run has started: the first frame of attempt 1."""

    conversation_id: str


class Refused(LiveFrame, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing was saved. `code` is one of `contracts.errors`, `attempt` that of the refused request.

    `approvals` are those that the conversation waits for, `running_trace_id` is the run under way in it.
    """

    code: str
    message: str
    approvals: tuple[ApprovalNeeded, ...] = ()
    running_trace_id: str | None = None


class Steered(LiveFrame, frozen=True, kw_only=True):
    """The message has joined another run, `running_trace_id`, whose reply answers it.

    After half a minute without a round boundary, the message may also still wait for one. `attempt` is that
    of the request.
    """

    running_trace_id: str


class Resumed(LiveFrame, frozen=True, kw_only=True):
    """The first frame of every later attempt, which continues after the text sent so far.

    `offset` counts that text in code points over all rounds; `sha256` is the hex digest of its UTF-8 bytes.
    """

    conversation_id: str
    offset: int
    sha256: str


class SourcesFound(LiveFrame, frozen=True, kw_only=True):
    """Retrieval ran and found these sources."""

    sources: tuple[Source, ...]


class WarningFrame(LiveFrame, frozen=True, kw_only=True, tag="Warning"):
    """The run continues without something. Sent before the text of the round."""

    warning: RunWarning


class DeltaFrame(LiveFrame, frozen=True, kw_only=True, tag="Delta"):
    """The next piece of the reply's text. Unnumbered, it repeats text for readers that missed it.

    `offset` counts the code points before it over all rounds, so that a reader that missed frames knows where
    the text continues.
    """

    round: int
    text: str
    offset: int


class ReasoningFrame(LiveFrame, frozen=True, kw_only=True, tag="Reasoning"):
    """The next piece of a round's reasoning, before the round's text, if the agent's `reasoning` is summary.

    `offset` counts the code points of the round's reasoning before it. An attempt that repeats a round of
    which readers have reasoning sends none.
    """

    round: int
    text: str
    offset: int


class ToolCalledFrame(LiveFrame, frozen=True, kw_only=True, tag="ToolCalled"):
    """The agent calls a tool. Sent after the round was appended to the log.

    `needs_approval`: it does not run before a person has approved it. `is_client`: the client runs it.
    """

    call_id: str
    name: str
    input: dict[str, Any]
    round: int
    needs_approval: bool = False
    is_client: bool = False


class ToolProgressFrame(LiveFrame, frozen=True, kw_only=True, omit_defaults=True, tag="ToolProgress"):
    """A running tool reports its progress, in a unit of its own. Unnumbered: nobody misses it.

    Published by the tool-runner, at most a few a second for each call.
    """

    call_id: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolReturnedFrame(LiveFrame, frozen=True, kw_only=True, tag="ToolReturned"):
    """A tool has returned.

    Its output is only in the log: a round of large outputs would overrun the live view.
    """

    call_id: str
    is_error: bool


class Paused(LiveFrame, frozen=True, kw_only=True):
    """The run waits for a person to decide about tool calls, which the log lists. The attempt's last frame.

    Unnumbered, it repeats that.
    """


class Alive(LiveFrame, frozen=True, kw_only=True):
    """The worker is alive. Sent every 5 s."""


class Completed(LiveFrame, frozen=True, kw_only=True, omit_defaults=True):
    """The reply is saved. `tool_calls` counts the tools that ran; their outputs are in the log.

    `is_sourced`: retrieval ran. `usage` is the run's. `cut` says why the reply is incomplete. `model` is the
    one that answered if the agent's own failed.
    """

    message: Message
    tool_calls: int
    is_sourced: bool = False
    usage: Usage = Usage()
    cut: Cut | None = None
    model: str | None = None


class Failed(LiveFrame, frozen=True, kw_only=True):
    """The run ended without a saved reply (failed, or cancelled with code `cancelled`)."""

    code: str
    message: str


Frame = (
    Queued
    | Accepted
    | Refused
    | Steered
    | Resumed
    | SourcesFound
    | WarningFrame
    | DeltaFrame
    | ReasoningFrame
    | ToolCalledFrame
    | ToolProgressFrame
    | ToolReturnedFrame
    | Paused
    | Alive
    | Completed
    | Failed
)
