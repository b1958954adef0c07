"""What can go wrong with a call of Anthropic's, told apart into our codes.

Errors in the middle of a stream are told apart by their type: their status is 200
(docs/change/reliability.md Models).
"""

import anthropic

from orchestrator.models.anthropic.wire import WireError
from orchestrator.models.http_failures import of_status
from orchestrator.models.port import ModelFailure, cut_short, timed_out

_TOO_LONG = ("prompt is too long", "context window", "context limit", "too many tokens")


def from_sdk(error: anthropic.AnthropicError) -> ModelFailure:
    """What the SDK raises before a stream begins."""
    if isinstance(error, anthropic.APIStatusError):
        return _from_status(error)
    if isinstance(error, anthropic.APITimeoutError):
        return timed_out("connect_timeout")
    if isinstance(error, anthropic.APIConnectionError):
        return ModelFailure("provider_error", kind="connection", transient=True)
    return ModelFailure("provider_error", kind=type(error).__name__)


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


def _from_status(error: anthropic.APIStatusError) -> ModelFailure:
    said = error.api_message if isinstance(error.api_message, str) else ""  # whatever the server sent
    return of_status(error.status_code, said, error.response.headers, too_long=_says_too_long(said))


def _says_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG)
