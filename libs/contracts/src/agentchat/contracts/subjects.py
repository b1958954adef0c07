"""Subjects and streams of the bus (docs/change/design.md 5), built and taken apart in this one place."""

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

"""EVENTS keeps an event for so long after it was published there."""

CONVERSATION_HEADER = "Chat-Conversation-Id"
POSITION_HEADER = "Chat-Log-Position"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")


def token(text: str) -> str:
    """`text` if it is fit to be one token of a subject, else a digest of it in its stead.

    Account, agent and trace ids are always fit; the call ids of a provider need not be.
    """
    if _TOKEN.match(text):
        return text
    return "h-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def requests(account_id: str) -> str:
    """Where `ChatRequested` goes."""
    return f"chat.requests.{token(account_id)}"


def tool_requests(trace_id: str) -> str:
    """Where `ToolRequested` goes."""
    return f"chat.tools.requests.{token(trace_id)}"


def tool_result(trace_id: str, call_id: str) -> str:
    """Where one `ToolFinished` goes."""
    return f"chat.tools.results.{token(trace_id)}.{token(call_id)}"


def tool_results(trace_id: str) -> str:
    """Where all `ToolFinished` of a trace go."""
    return f"chat.tools.results.{token(trace_id)}.*"


@functools.lru_cache(maxsize=4096)
def trace(trace_id: str) -> str:
    """The live frames of a trace: asked for with each of them."""
    return f"chat.traces.{token(trace_id)}"


def cancel(trace_id: str) -> str:
    """Where `CancelRequested` goes."""
    return f"chat.control.cancel.{token(trace_id)}"


def commands(account_id: str) -> str:
    """What else writes to an account's conversations, by request and reply."""
    return f"chat.commands.{token(account_id)}"


def events(account_id: str, event_name: str) -> str:
    """Where a stored event is copied to; `event_name` is its class name."""
    return f"chat.events.{token(account_id)}.{event_name}"


def fed(account_id: str | None = None, event_name: str | None = None) -> str:
    """The stored events of an account or of all, of one name or of all."""
    return f"chat.events.{'*' if account_id is None else token(account_id)}.{event_name or '*'}"


def dead(stream: str) -> str:
    """Where messages of `stream` end that failed past their last delivery."""
    return f"chat.dead.{stream}"
