"""Encode values to bytes and decode them, for the store, the bus and HTTP.

Decoding raises only `msgspec.DecodeError` (or its subclass `ValidationError`), also for text that is not
UTF-8 and for nesting that is too deep.
"""

from typing import Any, TypeVar

import msgspec

from agentchat.contracts import events, frames, messages
from agentchat.contracts.message_base import BusMessage

_encoder = msgspec.json.Encoder()
_canonical_encoder = msgspec.json.Encoder(order="deterministic")
_event_decoder: msgspec.json.Decoder[events.Event] = msgspec.json.Decoder(events.Event)
_frame_decoder: msgspec.json.Decoder[frames.Frame] = msgspec.json.Decoder(frames.Frame)

T = TypeVar("T")
M = TypeVar("M", bound=BusMessage)
_command_decoder: msgspec.json.Decoder[messages.Command] = msgspec.json.Decoder(messages.Command)
_message_decoders: dict[type[BusMessage], msgspec.json.Decoder[BusMessage]] = {}


def encode(value: object) -> bytes:
    """Encode any value of this package as JSON."""
    return _encoder.encode(value)


def encode_canonical(value: Any) -> bytes:
    """Encode a JSON value in the one form that all equal values share: 1.0 becomes 1, keys are sorted."""
    return _canonical_encoder.encode(_normalize(value))


def encode_tool_error(problem: str) -> str:
    """Return an error as a tool's output, which always parses as JSON."""
    return encode({"error": problem}).decode()


def decode_tool_error(output: str) -> str:
    """Return the words of `encode_tool_error`; any other output as it is."""
    value = msgspec.json.decode(output)
    match value:
        case {"error": str(words)} if len(value) == 1:
            return words
        case str():
            return value
    return output


def decode_event(data: bytes) -> events.Event:
    """Decode a stored event by its tag."""
    return _decode(_event_decoder, data)


def decode_frame(data: bytes) -> frames.Frame:
    """Decode a live frame by its type."""
    return _decode(_frame_decoder, data)


def decode_message(cls: type[M], data: bytes) -> M:
    """Decode a bus message of the class that its subject carries."""
    decoder = _message_decoders.get(cls)
    if decoder is None:
        decoder = _message_decoders[cls] = msgspec.json.Decoder(cls)
    message = _decode(decoder, data)
    assert isinstance(message, cls)
    return message


def decode_command(data: bytes) -> messages.Command:
    """Decode a command by its type: one subject carries several types."""
    return _decode(_command_decoder, data)


def _normalize(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_normalize(item) for item in value]
        case dict():
            return {key: _normalize(item) for key, item in value.items()}
        case _:
            return value


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def encode_sse(event: object) -> bytes:
    """Encode one SSE event: a line `data: <JSON>` and an empty line (interface specification, section 5).

    U+0085, U+2028 and U+2029 are escaped because some clients split lines there.
    """
    body = _encoder.encode(event)
    if b"\xc2\x85" in body or b"\xe2\x80" in body:
        body = body.replace(b"\xc2\x85", b"\\u0085")
        body = body.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return b"data: " + body + b"\n\n"
