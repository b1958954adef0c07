"""What can go wrong with a call, as our codes, by status, error code, type and, last, words.

Servers of this API agree on the statuses and on little else, so the tables hold what each is known to say.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.models.http_failures import of_status
from orchestrator.models.port import ModelFailure, cut_short, timed_out

_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}) | {
    "exceeded_current_quota_error",  # Moonshot
    "1113",  # Z.ai
}
_NO_MODEL = frozenset({"model_not_found", "invalid_model", "1211"})
_NO_MODEL_WORDS = ("model not exist", "invalid model", "model does not exist")
_TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG_WORDS = (
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "maximum number of tokens",
)
_FILTERED = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
_BAD_CALL = "tool_use_failed"  # Groq: the model wrote a call that is none; the next try may not
_BUSY = frozenset(
    {"rate_limit_exceeded", "overloaded", "overloaded_error", "rate_limit_error", "unavailable"}
)
_TIMEOUT = frozenset({"timeout", "timeout_error"})


def from_status(status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
    """An answer that is no success. `body` is its JSON, or text that is none."""
    return _from_status(status, body.get("error", body) if isinstance(body, dict) else body, headers)


def from_error(error: Any) -> ModelFailure:
    """An error in the middle of a stream, where the status was 200: its `code` may be one (OpenRouter)."""
    words, message = _words(error)
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code <= 599:
        return _from_status(code, error, {})
    if known := _known(words, message, {}):
        return known
    kind = next(iter(sorted(words)), "error")
    if words & _BUSY:
        return ModelFailure("provider_overloaded", kind=kind, transient=True)
    if words & _TIMEOUT:
        return timed_out(kind)
    if "invalid_request_error" in words:
        return ModelFailure("provider_error", kind=kind, provider_message=message)
    return cut_short(kind)


def unfinished(finish_reason: str) -> ModelFailure | None:
    """A finish reason that is none: the server gave up (DeepSeek; Mistral and OpenRouter)."""
    if finish_reason == "insufficient_system_resource":
        return ModelFailure("provider_overloaded", kind=finish_reason, transient=True)
    return cut_short("finish_error") if finish_reason == "error" else None


def _from_status(status: int, error: Any, headers: Mapping[str, str]) -> ModelFailure:
    words, message = _words(error)
    return _known(words, message, headers) or of_status(
        status, message, headers, too_long=status in (400, 413, 422) and _says_too_long(message)
    )


def _known(words: frozenset[str], message: str, headers: Mapping[str, str]) -> ModelFailure | None:
    """What a code or a type says more exactly than any status."""
    if words & _NO_CREDIT:
        return of_status(402, message, headers, too_long=False)
    if words & _TOO_LONG:
        return of_status(413, message, headers, too_long=True)
    if words & _FILTERED:
        return ModelFailure("provider_refused", kind="content_filter", provider_message=message)
    if words & _NO_MODEL or any(phrase in message.lower() for phrase in _NO_MODEL_WORDS):
        return of_status(404, message, headers, too_long=False)
    if _BAD_CALL in words:
        return ModelFailure("provider_error", kind=_BAD_CALL, transient=True, provider_message=message)
    return None


def _words(error: Any) -> tuple[frozenset[str], str]:
    """The error's code and type, in small letters, and its sentence."""
    if isinstance(error, str):
        return frozenset(), error
    if not isinstance(error, dict):
        return frozenset(), ""
    inner = error.get("innererror") or error.get("inner_error")
    found = [error.get("code"), error.get("type"), error.get("status")]
    found.append(inner.get("code") if isinstance(inner, dict) else None)
    message = error.get("message") or error.get("detail")
    words = frozenset(str(word).lower() for word in found if isinstance(word, str | int))
    return words, message if isinstance(message, str) else ""


def _says_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG_WORDS)
