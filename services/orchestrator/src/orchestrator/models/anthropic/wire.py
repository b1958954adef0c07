"""What a streamed reply consists of, as one loose type, and what errors mean, as our codes.

Events and fields that are new are let pass. An error in the middle of a stream is known by its type: its
status is 200.

Source: the Messages API's streaming page.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.models.port import ModelFailure, cut_short, timed_out
from orchestrator.models.provider_calls import of_status
from orchestrator.models.reply_builder import decoded

_TOO_LONG = ("prompt is too long", "context window", "context limit", "too many tokens")


class WireUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens so far; a null or absent count is not news."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class WireMessage(msgspec.Struct, frozen=True, gc=False):
    id: str = ""
    model: str = ""
    usage: WireUsage | None = None


class WireDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a content block, or (in `message_delta`) of the message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    content: str | None = None
    encrypted_content: str | None = None
    stop_reason: str | None = None


class WireError(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    message: str = ""


class WireEvent(msgspec.Struct, frozen=True, gc=False):
    """Any event: which fields it has goes by its `type`."""

    type: str
    index: int = 0
    message: WireMessage | None = None
    content_block: dict[str, Any] | None = None
    delta: WireDelta | None = None
    usage: WireUsage | None = None
    error: WireError | None = None


_decoder = msgspec.json.Decoder(WireEvent)


def event_of(data: bytes) -> WireEvent:
    """The event that `data` is. Raises StreamBroken."""
    return decoded(data, _decoder, WireEvent)


def from_status(status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
    """An answer that is no success. `body` is its JSON, or text that is none."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    message = message if isinstance(message, str) else ""
    return of_status(status, message, headers, too_long=_says_too_long(message))


def from_error_event(error: WireError | None) -> ModelFailure:
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
