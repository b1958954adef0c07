"""Define the messages on the bus about replaying recorded runs: `WhatIf` and its reply."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agentchat.contracts.message_base import BusMessage
from agentchat.contracts.values import ToolSpec, Usage


class WhatIf(BusMessage, frozen=True, kw_only=True):
    """Ask to replay a recorded run with another agent version, on `chat.replay.what_if`.

    `trace_id` is the recorded run's. `model` and `system_prompt` replace the version's own if given. Tool
    results and sources come from the record; the model is called. A tool call that was not recorded stops the
    replay. `seconds` bounds all of it.

    `record`, if given, holds the stored events of a conversation and replaces the log; `passages` are then
    the full texts of sources by id. `offered` replaces the tools that the agent's servers list.
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
    """A tool call of a replayed run. `missed`: the record has no result for it, so the replay stopped."""

    round: int
    name: str
    input: dict[str, Any]
    missed: bool = False


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The unrecorded call at which a replay stopped.

    `nearest` is the most similar recorded call that the replay had not repeated yet; None if there is none.
    """

    call: AskedTool
    nearest: AskedTool | None = None


WhatIfOutcome = Literal["completed", "failed", "diverged", "not_found", "unavailable"]
"""`failed`: with a code, as a run fails. `diverged`: it called a tool in a way that was not recorded.
`unavailable`: the run could not be read; ask again.
"""


class WhatIfAnswered(BusMessage, frozen=True, kw_only=True):
    """The result of replaying a run with another version, as far as the replay came. Nothing of it is stored.

    `ms` is the time it took, without time for tools. `sources_missed`: the agent retrieves, and the record
    holds no retrieval. `kind` is the log's word for a failure, such as `http_401`; `transient`: a repeat may
    succeed. `usage` includes that of a recorded summary, which was used again. `diverged` has the call at
    which the replay stopped.
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
