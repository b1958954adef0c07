"""Translate errors of the Chat Completions API, by status, code, type and, last, words.

Servers agree on the statuses and on little else. Source: the API's reference; what other servers add is named
at the field.
"""

from collections.abc import Mapping
from typing import Any

from agentchat.orchestrator.models.error_statuses import from_http_status
from agentchat.orchestrator.models.loose_json import to_int
from agentchat.orchestrator.models.model_interface import ModelFailure, make_cut_short, make_timeout

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
_BAD_CALL = "tool_use_failed"  # Groq: the model wrote an invalid call; a retry may succeed
_BUSY = frozenset(
    {"rate_limit_exceeded", "overloaded", "overloaded_error", "rate_limit_error", "unavailable"}
)
_TIMEOUT = frozenset({"timeout", "timeout_error"})


def from_status(status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
    """Translate an error response. `body` is its JSON, or text."""
    return _from_status(status, body.get("error", body) if isinstance(body, dict) else body, headers)


def from_error(error: Any) -> ModelFailure:
    """Translate an error in the middle of a stream, whose `code` may be a status (OpenRouter)."""
    words, message = _collect_error_words(error)
    code = to_int(error.get("code")) if isinstance(error, dict) else None
    if code is not None and 400 <= code <= 599:
        return _from_status(code, error, {})
    if known := _classify_words(words, message, {}):
        return known
    kind = next(iter(sorted(words)), "error")
    if words & _BUSY:
        return ModelFailure("provider_overloaded", kind=kind, transient=True)
    if words & _TIMEOUT:
        return make_timeout(kind)
    if "invalid_request_error" in words:
        return ModelFailure("provider_error", kind=kind, provider_message=message)
    return make_cut_short(kind)


def check_finish_reason(finish_reason: str) -> ModelFailure | None:
    """Return the failure that a finish reason means, such as a server that gave up, or None."""
    if finish_reason == "insufficient_system_resource":
        return ModelFailure("provider_overloaded", kind=finish_reason, transient=True)
    return make_cut_short("finish_error") if finish_reason == "error" else None


def _from_status(status: int, error: Any, headers: Mapping[str, str]) -> ModelFailure:
    words, message = _collect_error_words(error)
    return _classify_words(words, message, headers) or from_http_status(
        status, message, headers, too_long=status in (400, 413, 422) and _is_too_long(message)
    )


def _classify_words(words: frozenset[str], message: str, headers: Mapping[str, str]) -> ModelFailure | None:
    """Return the failure that a code or type names more precisely than a status."""
    if words & _NO_CREDIT:
        return from_http_status(402, message, headers, too_long=False)
    if words & _TOO_LONG:
        return from_http_status(413, message, headers, too_long=True)
    if words & _FILTERED:
        return ModelFailure("provider_refused", kind="content_filter", provider_message=message)
    if words & _NO_MODEL or any(phrase in message.lower() for phrase in _NO_MODEL_WORDS):
        unknown = from_http_status(404, message, headers, too_long=False)
        return ModelFailure(unknown.code, str(unknown), kind="model_not_found", provider_message=message)
    if _BAD_CALL in words:
        return ModelFailure("provider_error", kind=_BAD_CALL, transient=True, provider_message=message)
    return None


def _collect_error_words(error: Any) -> tuple[frozenset[str], str]:
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


def _is_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG_WORDS)
