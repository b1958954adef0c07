"""Build the subjects and name the streams of the bus (docs/change/rules.md 4).

No other module assembles or splits a subject.
"""

import functools
import hashlib
import re

REQUESTS = "REQUESTS"
TOOLS = "TOOLS"
TRACES = "TRACES"
RESULTS = "RESULTS"
CANCELS = "CANCELS"
EVENTS = "EVENTS"
DEAD = "DEAD"

TOOLS_LIST = "chat.tools.list"
TOOLS_CHECK = "chat.tools.check"
TOOLS_AUTHORIZE = "chat.tools.authorize"
TOOLS_AUTHORIZED = "chat.tools.authorized"
MODELS_CHECK = "chat.models.check"
WHAT_IF = "chat.replay.what_if"

ALL_COMMANDS = "chat.commands.*"


CONVERSATION_HEADER = "Chat-Conversation-Id"
POSITION_HEADER = "Chat-Log-Position"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")


def format_token(text: str) -> str:
    """Return `text` if it can be one token of a subject, else a digest of it.

    Account, agent and trace ids always can; call ids of a provider may not.
    """
    if _TOKEN.match(text):
        return text
    return "h-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def format_requests(account_id: str) -> str:
    """Return the subject of an account's `ChatRequested`."""
    return f"chat.requests.{format_token(account_id)}"


def format_tool_requests(trace_id: str) -> str:
    """Return the subject of a trace's `ToolRequested`."""
    return f"chat.tools.requests.{format_token(trace_id)}"


def format_tool_result(trace_id: str, call_id: str) -> str:
    """Return the subject of one `ToolFinished`."""
    return f"chat.tools.results.{format_token(trace_id)}.{format_token(call_id)}"


def format_tool_results(trace_id: str) -> str:
    """Return the wildcard subject of every `ToolFinished` of a trace."""
    return f"chat.tools.results.{format_token(trace_id)}.*"


@functools.lru_cache(maxsize=4096)
def format_trace(trace_id: str) -> str:
    """Return the subject of a trace's live frames. Cached: it is needed for each frame."""
    return f"chat.traces.{format_token(trace_id)}"


def format_cancel(trace_id: str) -> str:
    """Return the subject of a trace's `CancelRequested`."""
    return f"chat.control.cancel.{format_token(trace_id)}"


def format_commands(account_id: str) -> str:
    """Return the subject of an account's commands, by request and reply."""
    return f"chat.commands.{format_token(account_id)}"


def format_event(account_id: str, event_name: str) -> str:
    """Return the subject of a stored event on EVENTS. `event_name` is its class name."""
    return f"chat.events.{format_token(account_id)}.{event_name}"


def format_feed(account_id: str | None = None, event_name: str | None = None) -> str:
    """Return the wildcard subject of stored events: of one account or all, of one name or all."""
    return f"chat.events.{'*' if account_id is None else format_token(account_id)}.{event_name or '*'}"


def format_dead(stream: str) -> str:
    """Return the subject of messages of `stream` that failed after their last delivery."""
    return f"chat.dead.{stream}"
