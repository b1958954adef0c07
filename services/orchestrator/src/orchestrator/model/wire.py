"""What a streamed reply consists of, as one loose type: events and fields that are new are let pass.

Source: the Messages API's streaming page. Server-sent events are read by the rules of the HTML standard
(section 9.2.6) as far as they matter here: `data` lines make up an event, an empty line ends it.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

MAX_EVENT_BYTES = 8 * 1024 * 1024


class StreamBroken(Exception):  # noqa: N818 - a state of things, as its callers read it
    """The stream holds something that is no event of the protocol."""


class WireUsage(msgspec.Struct, frozen=True):
    """Tokens so far; a null or absent count is not news."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class WireMessage(msgspec.Struct, frozen=True):
    """The head of a reply."""

    id: str = ""
    model: str = ""
    usage: WireUsage | None = None


class WireDelta(msgspec.Struct, frozen=True):
    """A piece of a content block, or (in `message_delta`) of the message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class WireError(msgspec.Struct, frozen=True):
    """An error in the middle of a stream."""

    type: str = ""
    message: str = ""


class WireEvent(msgspec.Struct, frozen=True):
    """Any event: which fields it has goes by its `type`."""

    type: str
    index: int = 0
    message: WireMessage | None = None
    content_block: dict[str, Any] | None = None
    delta: WireDelta | None = None
    usage: WireUsage | None = None
    error: WireError | None = None


_decoder = msgspec.json.Decoder(WireEvent)


class EventReader:
    """Bytes in, events out, wherever the bytes were cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[WireEvent]:
        """The events that `chunk` completes. Raises StreamBroken."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise StreamBroken("an event without an end")
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:])
            elif line in (b"", b"\r") and self._data:
                data, self._data = b"\n".join(self._data), []
                yield _decode(data)


def _decode(data: bytes) -> WireEvent:
    try:
        return _decoder.decode(data)
    except RecursionError as error:
        raise StreamBroken("an event nested without end") from error
    except ValueError:
        # Lone surrogates and stray bytes: rare, and read by a slower, more tolerant parser.
        try:
            return msgspec.convert(json.loads(data.decode("utf-8", "replace")), WireEvent)
        except (ValueError, RecursionError) as error:
            raise StreamBroken("an event that is not JSON of the protocol") from error
