"""What went wrong, as one sentence for somebody at a terminal. Pure."""

import math

from agentchat_client import (
    AgentChatError,
    ApiError,
    AuthenticationFailed,
    ChatError,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
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
    told = one_line(_told(error), _LONGEST)
    return f"{told} (trace {one_line(trace_id, 64)})" if trace_id else told


def _told(error: AgentChatError) -> str:
    match error:
        case ConnectionFailed():
            return f"The service cannot be reached: {error}."
        case StreamInterrupted():
            return f"The connection broke off: {error.reason.rstrip('.')}. The reply goes on; see /history."
        case InvalidResponse():
            return f"That is no answer of this service: {error.reason}"
        case ChatError():
            return f"The reply failed ({error.code}): {error.message}"
        case ApiError():
            return _refusal(error)
        case _:
            return str(error)


def _refusal(error: ApiError) -> str:
    detail = error.detail.rstrip(".")
    match error:
        case AuthenticationFailed():
            return f"The service does not take this key (401): {detail}."
        case PlanUpgradeRequired():
            return f"The account's plan does not include this (403): {detail}."
        case NotFound():
            return f"Not found (404): {detail}."
        case Conflict() if error.code == "conversation_busy":
            return "This thread still answers another message (409); try again in a moment."
        case RateLimited():
            return f"{_limit(error)} (429){_wait(error.retry_after)}."
        case InvalidRequest() if error.errors:
            fields = "; ".join(f"{wrong.field}: {wrong.message}" for wrong in error.errors)
            return f"The service refuses the message ({error.status}): {fields}"
        case ServerFailed():
            wait = _wait(error.retry_after)
            return f"The service failed ({error.status} {error.code or 'without a code'}): {detail}{wait}."
        case _:
            return f"The service refuses this ({error.status} {error.code or 'without a code'}): {detail}."


def _limit(error: RateLimited) -> str:
    if error.code == "quota_exceeded":
        return "The month's tokens are used up"
    return f"Too much at once: {error.detail.rstrip('.')}"


def _wait(seconds: float | None) -> str:
    return "" if seconds is None else f"; try again in {duration(seconds)}"


def duration(seconds: float) -> str:
    """`3 s`, `5 min`, `2 h` or `9 days`, rounded up."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{math.ceil(seconds)} s"
