"""What a streamed reply consists of, as one loose type: events and fields that are new are let pass.

Source: the Messages API's streaming page.
"""

from typing import Any

import msgspec

from orchestrator.models.provider_sse import decoded


class WireUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens so far; a null or absent count is not news."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class WireMessage(msgspec.Struct, frozen=True, gc=False):
    """The head of a reply."""

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
    """An error in the middle of a stream."""

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
