"""Define the messages on the bus about tools: calls, results, lists and checks of servers."""

from typing import Any

import msgspec

from agentchat.contracts.files import StoredFile
from agentchat.contracts.message_base import BusMessage
from agentchat.contracts.timings import TOOL_SECONDS
from agentchat.contracts.values import Elicitation, ElicitationAction, ToolSpec


class InputRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A tool server's question to a person. `key` is the server's name for it within one answer."""

    key: str
    elicitation: Elicitation


class InputResponse(InputRequest, frozen=True, kw_only=True):
    """A person's response. `leg` is that of the call that asked; `content` fits the requested schema."""

    leg: int
    action: ElicitationAction
    content: dict[str, Any] | None = None


def _format_leg_id(call_id: str, leg: int) -> str:
    return f"{call_id}#{leg}" if leg else call_id  # call ids contain no `#`


class ToolRequested(BusMessage, frozen=True, kw_only=True, omit_defaults=True):
    """Call one tool of an agent's MCP server, on `chat.tools.requests.<trace_id>`.

    Published by `orchestrator.tools.tool_calls`; consumed by `tool_runner.calls.handler`.

    `server` and `tool` are as listed by `ToolsListed`; `timeout_s` bounds the call itself. `deadline` is by
    Postgres' clock: a call that has not started by then is not made, since nothing waits for it.

    `leg` counts the earlier attempts of this call, each of which asked a person for input. `responses` answer
    all of those questions, and `request_state` is what the server gave with the last one.

    `user_id` and `context` are those of the run's request. `depth` counts the agents above the run's, for an
    agent that is called as a tool.
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
    conversation_id: str = ""
    user_id: str | None = None
    context: dict[str, Any] | None = None
    depth: int = 0

    @property
    def leg_id(self) -> str:
        """The id of this attempt of the call. Each attempt is made once."""
        return _format_leg_id(self.call_id, self.leg)

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the MCP request: what the tool server may know of the run."""
        known = {
            "agentchat/user_id": self.user_id,
            "agentchat/conversation_id": self.conversation_id or None,
            "agentchat/trace_id": self.trace_id,
            "agentchat/context": self.context,
            "agentchat/call_id": self.call_id,
            "agentchat/depth": self.depth or None,
        }
        return {name: value for name, value in known.items() if value is not None}


class ToolFinished(BusMessage, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's outcome, on `chat.tools.results.<trace_id>.<call_id>`. `output` parses as JSON.

    Published by `tool_runner.calls.handler`; consumed by `orchestrator.tools.tool_calls`.

    `quotes_server`: the error is, or has, text of the tool's server, which API clients do not get. `files`
    are the images and files of the result, which the tool-runner has stored.

    `recorded`: the log has the outcome, and this message, with an empty `output`, replaced it on the subject.

    With `input_requests` the tool has no outcome yet: it asks a person, and the call is repeated with
    `request_state`. `output` is then what the model gets if nobody is asked. `leg` is the request's.
    """

    trace_id: str
    call_id: str
    output: str
    is_error: bool
    ms: int
    quotes_server: bool = False
    files: tuple[StoredFile, ...] = ()
    recorded: bool = False
    leg: int = 0
    input_requests: tuple[InputRequest, ...] = ()
    request_state: str | None = None

    @property
    def leg_id(self) -> str:
        """The `leg_id` of the request."""
        return _format_leg_id(self.call_id, self.leg)


class ListTools(BusMessage, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for the tools of an agent version, by request and reply on `chat.tools.list`."""

    account_id: str
    agent_id: str
    agent_version: int
    fresh: bool = False
    """Read the servers again instead of answering from a kept list, as for an unknown tool."""


class UnavailableServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server whose tools are missing; `server` is its name in the agent, or * for all.

    `reason` is a sentence that a model and an administrator may read.
    """

    server: str
    reason: str


class ToolsListed(BusMessage, frozen=True, kw_only=True):
    """The tools of an agent version, in a deterministic order. Equal names were made different."""

    tools: tuple[ToolSpec, ...]
    unavailable: tuple[UnavailableServer, ...] = ()


class CheckTools(BusMessage, frozen=True, kw_only=True):
    """Ask for a fresh check of an agent version's MCP servers, on `chat.tools.check`."""

    account_id: str
    agent_id: str
    agent_version: int


class ServerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of connecting to one MCP server. `detail` says what is wrong and can be shown.

    `tools` counts the listed tools that can be used, `allowed` those that the agent may call. `missing` are
    tools that the allow-list or the approval policy names and the server does not list; then `ok` is False.
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
