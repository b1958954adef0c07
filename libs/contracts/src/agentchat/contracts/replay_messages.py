"""The messages on the bus about recorded runs that are done again: `WhatIf` and its reply."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agentchat.contracts.bus_message import BusMessage
from agentchat.contracts.values import ToolSpec, Usage


class WhatIf(BusMessage, frozen=True, kw_only=True):
    """Ask for a recorded run again with another agent version, on `chat.replay.what_if`.

    `trace_id` is the recorded run's. `model` and `system_prompt` replace the version's own if given. Tools
    and sources are the record's; the model is called. A tool call that was not recorded stops the replay.
    `seconds` bounds it all.

    `record` are the events of a conversation as they are stored, in place of the log's; `passages` are then
    the full texts of sources, by their ids. `offered` are the tools that the model is offered, in place of
    those that the agent's servers list.
    """

    account_id: str
    agent_id: str
    agent_version: int
    conversation_id: str
    trace_id: str
    model: str | None = None
    system_prompt: str | None = None
    seconds: float = 120.0
    record: tuple[msgspec.Raw, ...] | None = None
    passages: Mapping[str, str] = {}
    offered: tuple[ToolSpec, ...] | None = None


class AskedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of a replayed run. `missed`: the record holds no result for it, so the replay stopped."""

    round: int
    name: str
    input: dict[str, Any]
    missed: bool = False


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The call at which a replay stopped, since it was not recorded.

    `nearest` is the recorded call that is most like it, of those that had not been repeated by then; None
    where there is none left.
    """

    call: AskedTool
    nearest: AskedTool | None = None


WhatIfOutcome = Literal["completed", "failed", "diverged", "not_found", "unavailable"]
"""`failed`: as a run fails, with a code. `diverged`: it called a tool in a way that was not recorded.
`unavailable`: nothing is known of the run; ask again.
"""


class WhatIfAnswered(BusMessage, frozen=True, kw_only=True):
    """What the other version did, as far as it came; nothing of it is stored.

    `ms` is the time that it took, with no time for tools. `sources_missed`: it retrieves, and the record
    holds no retrieval of the run. `kind` is the word of the log for a failure, such as `http_401`;
    `transient`: the same question may well have an answer later. `usage` includes that of a recorded summary,
    which was used again. `diverged` has the call at which the replay stopped.
    """

    outcome: WhatIfOutcome
    code: str | None = None
    detail: str | None = None
    model: str = ""
    content: str = ""
    rounds: int = 0
    calls: tuple[AskedTool, ...] = ()
    sources_missed: bool = False
    usage: Usage = Usage()
    ms: int = 0
    kind: str = ""
    transient: bool = False
    diverged: Divergence | None = None
