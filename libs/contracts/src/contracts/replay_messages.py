"""The messages on the bus about recorded runs that are done again: `WhatIf` and its reply."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from contracts.bus_message import BusMessage
from contracts.values import ToolSpec, Usage

Unrecorded = Literal["fail", "stop", "simulate", "live"]
"""What becomes of a tool call that was never recorded.

`fail`: the model gets an error. `stop`: the rerun ends there. `simulate`: the agent's model plays the tool.
`live`: a harmless one is called, at any other the rerun ends.
"""


NO_VERSION = 0
"""Of an agent that is not stored where a question is answered: the deployment's provider key is used."""


class WhatIf(BusMessage, frozen=True, kw_only=True):
    """Ask for a recorded run again with another agent version, on `chat.replay.what_if`.

    `trace_id` is the recorded run's. `model` and `system_prompt`, where given, take the place of the
    version's own. Tools and sources are the record's; the model is called. `seconds` bounds it all.

    `record` are the events of a conversation as they are stored, in place of the log's; `passages` are then
    the full texts of sources, by their ids. `offered` are the tools that the model is offered, in place of
    those that the agent's servers list. `agent` is a configuration (`directory.agents.AgentSettings`) in
    place of the stored version's; that version's provider key is used where it goes to the same provider and
    address. `harmless` are the names of tools, as the model sees them, that `live` may call.

    A worker of release 0.9.0 knows none of these five and `unrecorded`: its reply says so by having no
    `unrecorded`.
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
    agent: dict[str, Any] | None = None
    unrecorded: Unrecorded = "fail"
    harmless: tuple[str, ...] = ()


class AskedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of a replayed run. `missed`: the log holds no result for it, which the model was sent.

    `simulated`: a model answered it. `live`: the tool did.
    """

    round: int
    name: str
    input: dict[str, Any]
    missed: bool = False
    simulated: bool = False
    live: bool = False


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The call at which a rerun ended, since it was never recorded.

    `nearest` is the recorded call that is most like it, of those that had not been repeated by then; None
    where there is none left.
    """

    call: AskedTool
    nearest: AskedTool | None = None


WhatIfOutcome = Literal["completed", "failed", "not_found", "unavailable"]
"""`failed`: as a run fails, with a code. `unavailable`: nothing is known of the run; ask again."""


class WhatIfAnswered(BusMessage, frozen=True, kw_only=True):
    """What the other version did, as far as it came; nothing of it is stored.

    `ms` is the time that it took, with no time for tools. `sources_missed`: it retrieves, and the log holds
    no retrieval of the run.

    With `diverged` the outcome is `failed` and the code "diverged". `kind` is the word of the log for a
    failure, such as `http_401`; `transient`: the same question may well have an answer later. `usage` has
    what simulated tools cost, and what a recorded summary did, which was used again. `unrecorded` is the
    question's.
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
    unrecorded: Unrecorded | None = None
