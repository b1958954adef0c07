"""What went wrong, as one sentence for somebody at a terminal. Pure."""

import math

from agentchat_client import (
    AgentChatError,
    ApiError,
    AuthenticationFailed,
    ChatError,
    Conflict,
    ConnectionFailed,
    InvalidResponse,
    NotFound,
    PlanUpgradeRequired,
    RateLimited,
    ServerFailed,
    StreamInterrupted,
)
from ops.chat.safe import one_line

_LONGEST = 600


def sentence(error: AgentChatError) -> str:
    """One line; the trace, by which the service's people find the request, is at its end."""
    trace_id = getattr(error, "trace_id", None)
    text = one_line(_text(error), _LONGEST)
    return f"{text} (trace {one_line(trace_id, 64)})" if trace_id else text


def _text(error: AgentChatError) -> str:
    match error:
        case ConnectionFailed():
            return f"The service cannot be reached: {error}."
        case StreamInterrupted():
            return f"The connection broke off: {error.reason.rstrip('.')}. The reply goes on; see /history."
        case InvalidResponse():
            return f"That is no answer of this service: {error.reason}"
        case ChatError() if error.approvals:
            waiting = ", ".join(f"{each.tool} ({each.id})" for each in error.approvals)
            return f"The reply waits for a person's word on {waiting}: `agentchat admin approvals decide`."
        case ChatError():
            return f"The reply failed ({error.code}): {error.message}"
        case Conflict() if error.code == "conversation_busy":
            return "This thread still answers another message (409); try again in a moment."
        case ApiError():
            about = "; ".join(f"{wrong.field}: {wrong.message}" for wrong in error.errors) or error.detail
            wait = "" if error.retry_after is None else f"; try again in {duration(error.retry_after)}"
            return f"{_refusal(error)}: {about.rstrip('.')}{wait}."
        case _:
            return str(error)


def _refusal(error: ApiError) -> str:
    code = f"{error.status} {error.code or 'without a code'}"
    match error:
        case AuthenticationFailed():
            return "The service does not take this key (401)"
        case PlanUpgradeRequired():
            return "The account's plan does not include this (403)"
        case NotFound():
            return "Not found (404)"
        case RateLimited() if error.code == "quota_exceeded":
            return "The month's tokens are used up (429)"
        case RateLimited():
            return "Too much at once (429)"
        case ServerFailed():
            return f"The service failed ({code})"
        case _:
            return f"The service refuses this ({code})"


def duration(seconds: float) -> str:
    """`3 s`, `5 min`, `2 h` or `9 days`, rounded up."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{math.ceil(seconds)} s"
