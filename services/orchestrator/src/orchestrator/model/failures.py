"""What can go wrong with a model call, told apart into our codes. No text of the provider's is passed on.

A failure is `transient` where the same call may well succeed if it is made again. Errors in the middle of a
stream are told apart by their type: their status is 200 (RELIABILITY 2.5).
"""

import email.utils
import time
from collections.abc import Mapping

import anthropic

from orchestrator.model.wire import WireError

_MESSAGES = {
    "provider_error": "The model provider failed.",
    "provider_timeout": "The model provider did not answer in time.",
    "provider_overloaded": "The model provider is overloaded.",
    "provider_refused": "The model provider declined to answer this message.",
    "context_too_long": "The conversation is too long for the agent's model.",
    "output_invalid": "The reply is not the JSON that the agent is to give.",
}
_KEY = "The model provider does not accept the agent's key."
_CREDIT = "The model provider account of the agent's key has no credit."
_PERMISSION = "The agent's key may not use this model."
_MODEL = "The model provider does not know the agent's model."
_REQUEST = "The model provider does not accept the request: the agent's model and parameters may not agree."
_CUT = "The model provider broke off its reply."
_TOO_LONG = ("prompt is too long", "context window", "context limit", "too many tokens")


class ModelFailure(Exception):  # noqa: N818 - an outcome, named as such
    """A model call that came to nothing. `code` is one of `contracts.errors`; `str()` is fit for the client.

    `kind` is a word for the log. `said` is the provider's own sentence, for whoever checks an agent's
    settings: it goes into no log and to no client.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        kind: str = "",
        transient: bool = False,
        retry_after: float | None = None,
        said: str = "",
    ) -> None:
        super().__init__(message or _MESSAGES[code])
        self.code = code
        self.kind = kind or code
        self.transient = transient
        self.retry_after = retry_after
        self.said = said


def cut_short(kind: str) -> ModelFailure:
    """The stream broke, or ended before the reply did."""
    return ModelFailure("provider_error", _CUT, kind=kind, transient=True)


def timed_out(kind: str) -> ModelFailure:
    """Nothing came for too long."""
    return ModelFailure("provider_timeout", kind=kind, transient=True)


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
    status = error.status_code
    said = error.api_message or ""
    code, words, transient = _of_status(status, said)
    return ModelFailure(
        code,
        words,
        kind=f"http_{status}",
        transient=transient,
        retry_after=_retry_after(error.response.headers) if transient else None,
        said=said,
    )


def _of_status(status: int, said: str) -> tuple[str, str | None, bool]:
    """The code, words other than its own, and whether another try may help."""
    match status:
        case 400 | 422 if _says_too_long(said):
            return "context_too_long", None, False
        case 400 | 422:
            return "provider_error", _REQUEST, False
        case 401:
            return "provider_error", _KEY, False
        case 402:
            return "provider_error", _CREDIT, False
        case 403:
            return "provider_error", _PERMISSION, False
        case 404:
            return "provider_error", _MODEL, False
        case 413:
            return "context_too_long", None, False
        case 408 | 504:
            return "provider_timeout", None, True
        case 429 | 503 | 529:
            return "provider_overloaded", None, True
        case _:
            return "provider_error", None, status == 409 or status >= 500


def _says_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from `retry-after-ms` or `retry-after` (a number or an HTTP date, RFC 9110 section 10.2.3)."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after", "")
        if not text:
            return None
        if text.replace(".", "", 1).isdigit():
            return float(text)
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
