"""Translate the error statuses of model providers. No text of a provider is passed on to clients."""

import email.utils
from collections.abc import Mapping

from agentchat.orchestrator.models.model_interface import ModelFailure

_KEY = "The model provider rejected the agent's key."
_CREDIT = "The model provider account of the agent's key is out of credit."
_PERMISSION = "The agent's key may not use this model."
_MODEL = "The model provider does not know the agent's model."
_REQUEST = "The model provider rejected the request: the agent's model and parameters may not fit together."


def from_http_status(
    status: int, message: str, headers: Mapping[str, str], *, too_long: bool
) -> ModelFailure:
    """Translate an error status. The failure's kind is `http_<status>`.

    `message` is the provider's own sentence; `too_long`: it says that the prompt is too long for the model.
    """
    code, words, transient = _classify_status(status, too_long)
    return ModelFailure(
        code,
        words,
        kind=f"http_{status}",
        transient=transient,
        retry_after=retry_after(headers) if transient else None,
        provider_message=message,
    )


def _classify_status(status: int, too_long: bool) -> tuple[str, str | None, bool]:
    """Return the error code, our message if it is not the code's own, and whether a retry may help."""
    match status:
        case 400 | 422 if too_long:
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


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `retry-after-ms` or `retry-after` (RFC 9110, section 10.2.3).

    A date is measured by the provider's own clock (`date`), since ours may differ.
    """
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after", "")
        if not text:
            return None
        if text.replace(".", "", 1).isdigit():
            return float(text)
        until, now = map(email.utils.parsedate_to_datetime, (text, headers["date"]))
        return max(0.0, (until - now).total_seconds())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
