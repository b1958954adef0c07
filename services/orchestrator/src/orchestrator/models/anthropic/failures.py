"""What can go wrong with a call of Anthropic's, as our codes.

Errors in the middle of a stream differ by their type: their status is 200
(docs/change/reliability.md Models).
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.models.anthropic.wire import WireError
from orchestrator.models.http_failures import of_status
from orchestrator.models.port import ModelFailure, cut_short, timed_out

_TOO_LONG = ("prompt is too long", "context window", "context limit", "too many tokens")


def from_status(status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
    """An answer that is no success. `body` is its JSON, or text that is none."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    message = message if isinstance(message, str) else ""
    return of_status(status, message, headers, too_long=_says_too_long(message))


def from_error_event(error: WireError | None) -> ModelFailure:
    """An `error` event in the middle of a stream."""
    kind = error.type if error is not None else "error"
    match kind:
        case "overloaded_error" | "rate_limit_error":
            return ModelFailure("provider_overloaded", kind=kind, transient=True)
        case "timeout_error":
            return timed_out(kind)
        case "api_error":
            return cut_short(kind)
        case "invalid_request_error" | "request_too_large" if error is not None and _says_too_long(
            error.message
        ):
            return ModelFailure("context_too_long", kind=kind)
        case _:
            return ModelFailure("provider_error", kind=kind)


def _says_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG)
