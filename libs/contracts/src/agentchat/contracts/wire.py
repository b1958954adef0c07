"""The only encoder: values to bytes and back, for the store, the bus and HTTP.

Decoding raises `msgspec.DecodeError` (or its subclass `ValidationError`) for bytes that are not what they
should be, text that is no UTF-8 and nesting without end included; nothing else.
"""

from typing import Any, TypeVar

import msgspec

from agentchat.contracts import events, frames, messages
from agentchat.contracts.bus_message import BusMessage

_encoder = msgspec.json.Encoder()
_canonical_encoder = msgspec.json.Encoder(order="deterministic")
_event_decoder: msgspec.json.Decoder[events.Event] = msgspec.json.Decoder(events.Event)
_frame_decoder: msgspec.json.Decoder[frames.Frame] = msgspec.json.Decoder(frames.Frame)

T = TypeVar("T")
M = TypeVar("M", bound=BusMessage)
_command_decoder: msgspec.json.Decoder[messages.Command] = msgspec.json.Decoder(messages.Command)
_message_decoders: dict[type[BusMessage], msgspec.json.Decoder[BusMessage]] = {}


def encode(value: object) -> bytes:
    """Any value of this package as JSON."""
    return _encoder.encode(value)


def encode_canonical(value: Any) -> bytes:
    """A value that came of JSON, in the one form that all equal ones have: 1.0 is 1, and keys are sorted."""
    return _canonical_encoder.encode(_normalised(value))


def error_output(problem: str) -> str:
    """An error as the output of a tool, which always parses as JSON."""
    return encode({"error": problem}).decode()


def decode_event(data: bytes) -> events.Event:
    """A stored event, by its tag."""
    return _decoded(_event_decoder, data)


def decode_frame(data: bytes) -> frames.Frame:
    """A live frame, by its type."""
    return _decoded(_frame_decoder, data)


def decode_message(cls: type[M], data: bytes) -> M:
    """Decode a bus message of the class that its subject carries."""
    decoder = _message_decoders.get(cls)
    if decoder is None:
        decoder = _message_decoders[cls] = msgspec.json.Decoder(cls)
    message = _decoded(decoder, data)
    assert isinstance(message, cls)
    return message


def decode_command(data: bytes) -> messages.Command:
    """A message that its subject carries next to others, by its type."""
    return _decoded(_command_decoder, data)


def _normalised(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_normalised(item) for item in value]
        case dict():
            return {key: _normalised(item) for key, item in value.items()}
        case _:
            return value


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def encode_sse(event: object) -> bytes:
    """One SSE event: the single line `data: <JSON>` and an empty line (interface specification, section 5).

    U+0085, U+2028 and U+2029 are escaped: some clients split lines there.
    """
    body = _encoder.encode(event)
    if b"\xc2\x85" in body or b"\xe2\x80" in body:
        body = body.replace(b"\xc2\x85", b"\\u0085")
        body = body.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return b"data: " + body + b"\n\n"
