"""The messages on the bus, beside the live frames: requests for work, their results, and control.

Requests are imperative or end in Requested; any of them may be delivered more than once.
"""

from typing import Any

import msgspec

from contracts.values import Form, ToolSpec


class BusMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all bus messages: `type` is the class name."""


class ChatRequested(BusMessage, frozen=True, kw_only=True):
    """A caller's message to an agent, on `chat.requests.<account_id>`.

    `attempt` counts the publications of this request (it makes the Nats-Msg-Id `<trace_id>:<attempt>`);
    the sweeper publishes again with a higher one. `deadline` is on the clock of Postgres: a request that
    has appended nothing by then is void. `message_id` is the id that the user message will be saved under.
    """

    trace_id: str
    attempt: int
    account_id: str
    agent_id: str
    conversation_id: str
    new_conversation: bool
    message_id: str
    message: str
    form: Form
    requested_at: str
    deadline: str
    prompt: str | None = None


class ToolRequested(BusMessage, frozen=True, kw_only=True):
    """Run one tool of an agent's MCP server, on `chat.tools.requests.<trace_id>`.

    `server` and `tool` are as listed by `ToolsListed`; `timeout_s` bounds the call itself.
    """

    trace_id: str
    call_id: str
    account_id: str
    agent_id: str
    agent_version: int
    server: str
    tool: str
    input: dict[str, Any]
    timeout_s: float = 30.0


class ToolFinished(BusMessage, frozen=True, kw_only=True):
    """A tool's outcome, on `chat.tools.results.<trace_id>.<call_id>`; `output` parses as JSON."""

    trace_id: str
    call_id: str
    output: str
    is_error: bool
    ms: int


class ListTools(BusMessage, frozen=True, kw_only=True):
    """Ask for the tools of an agent version, by request and reply on `chat.tools.list`."""

    account_id: str
    agent_id: str
    agent_version: int


class UnavailableServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server that could not be listed, and why, in words fit for a log."""

    server: str
    reason: str


class ToolsListed(BusMessage, frozen=True, kw_only=True):
    """The tools of an agent version, in a deterministic order, with names that collide told apart."""

    tools: tuple[ToolSpec, ...]
    unavailable: tuple[UnavailableServer, ...] = ()


class CancelRequested(BusMessage, frozen=True, kw_only=True):
    """Cancel a run, on `chat.control.cancel.<trace_id>`."""

    trace_id: str
    account_id: str


class DeadLettered(BusMessage, frozen=True, kw_only=True):
    """A message that failed past its last delivery, on `chat.dead.<stream>`; `payload` is it, as text."""

    stream: str
    subject: str
    reason: str
    payload: str


MESSAGES: tuple[type[BusMessage], ...] = (
    ChatRequested,
    ToolRequested,
    ToolFinished,
    ListTools,
    ToolsListed,
    CancelRequested,
    DeadLettered,
)
