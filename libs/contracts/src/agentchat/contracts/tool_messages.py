"""The messages on the bus about tools: calls and their results, lists and checks of servers."""

from typing import Any

import msgspec

from agentchat.contracts.bus_message import BusMessage
from agentchat.contracts.timings import TOOL_SECONDS
from agentchat.contracts.values import Elicitation, ElicitationAction, ToolSpec


class InputRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool server asks of a person; `key` is its name for that, within one answer."""

    key: str
    elicitation: Elicitation


class InputResponse(InputRequest, frozen=True, kw_only=True):
    """A person's response. `leg` is that of the call that asked; `content` fits the requested schema."""

    leg: int
    action: ElicitationAction
    content: dict[str, Any] | None = None


def _leg_id(call_id: str, leg: int) -> str:
    return f"{call_id}#{leg}" if leg else call_id  # no id of a call has a `#`


class ToolRequested(BusMessage, frozen=True, kw_only=True, omit_defaults=True):
    """Run one tool of an agent's MCP server, on `chat.tools.requests.<trace_id>`.

    `server` and `tool` are as listed by `ToolsListed`; `timeout_s` bounds the call itself. `deadline` is on
    the clock of Postgres: a call that has not begun by then is not run, since nothing waits for it.

    `leg` counts the attempts of the call before this one, each of which requested input: `responses` are to
    all of those, and `request_state` is what the server gave with the last.
    """

    trace_id: str
    call_id: str
    account_id: str
    agent_id: str
    agent_version: int
    server: str
    tool: str
    input: dict[str, Any]
    timeout_s: float = TOOL_SECONDS
    deadline: str | None = None
    leg: int = 0
    responses: tuple[InputResponse, ...] = ()
    request_state: str | None = None

    @property
    def leg_id(self) -> str:
        """The id of this attempt of the call: each is run once."""
        return _leg_id(self.call_id, self.leg)


class ToolFinished(BusMessage, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's outcome, on `chat.tools.results.<trace_id>.<call_id>`; `output` parses as JSON.

    `recorded`: the log has the outcome, and this has taken its place on the subject, with an empty `output`.

    With `input_requests` the tool has no outcome yet: it asks a person, and the call is to be made again,
    with `request_state`. `output` is then what the model gets where nobody is asked. `leg` is the
    request's.
    """

    trace_id: str
    call_id: str
    output: str
    is_error: bool
    ms: int
    recorded: bool = False
    leg: int = 0
    input_requests: tuple[InputRequest, ...] = ()
    request_state: str | None = None

    @property
    def leg_id(self) -> str:
        """That of its request."""
        return _leg_id(self.call_id, self.leg)


class ListTools(BusMessage, frozen=True, kw_only=True):
    """Ask for the tools of an agent version, by request and reply on `chat.tools.list`."""

    account_id: str
    agent_id: str
    agent_version: int


class UnavailableServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server that could not be listed, and why, as it may be logged."""

    server: str
    reason: str


class ToolsListed(BusMessage, frozen=True, kw_only=True):
    """The tools of an agent version, in a deterministic order, with equal names made different."""

    tools: tuple[ToolSpec, ...]
    unavailable: tuple[UnavailableServer, ...] = ()


class CheckTools(BusMessage, frozen=True, kw_only=True):
    """Ask for a look at an agent version's MCP servers as they are now, on `chat.tools.check`."""

    account_id: str
    agent_id: str
    agent_version: int


class ServerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of connecting to one MCP server; `detail` is what is wrong, and can be shown.

    `tools` counts what the server lists and can be used, `allowed` those of them that the agent may call.
    `missing` are tools that its allow-list or approval policy names and the server does not list; then `ok`
    is false too.
    """

    name: str
    ok: bool
    tools: int = 0
    allowed: int = 0
    missing: tuple[str, ...] = ()
    detail: str = ""
    ms: int = 0


class ToolsChecked(BusMessage, frozen=True, kw_only=True):
    """The enabled MCP servers of an agent version, in its order."""

    servers: tuple[ServerCheck, ...]
