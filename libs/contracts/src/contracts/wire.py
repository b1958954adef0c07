"""The only encoder: values to bytes and back, for the store, the bus and HTTP.

Decoding raises `msgspec.DecodeError` (or its subclass `ValidationError`) for bytes that are not what they
should be; nothing else.
"""

from typing import TypeVar

import msgspec

from contracts import events, frames, messages
from contracts.http import StreamEvent

_encoder = msgspec.json.Encoder()
_event_decoder: msgspec.json.Decoder[events.Event] = msgspec.json.Decoder(events.Event)
_frame_decoder: msgspec.json.Decoder[frames.Frame] = msgspec.json.Decoder(frames.Frame)

M = TypeVar("M", bound=messages.BusMessage)
_message_decoders = {cls: msgspec.json.Decoder(cls) for cls in messages.MESSAGES}


def encode(value: object) -> bytes:
    """Any value of this package as JSON."""
    return _encoder.encode(value)


def decode_event(data: bytes) -> events.Event:
    """A stored event, by its tag."""
    return _event_decoder.decode(data)


def decode_frame(data: bytes) -> frames.Frame:
    """A live frame, by its type."""
    return _frame_decoder.decode(data)


def decode_message(cls: type[M], data: bytes) -> M:
    """A bus message of the class that its subject carries."""
    message = _message_decoders[cls].decode(data)
    assert isinstance(message, cls)
    return message


def encode_sse(event: StreamEvent) -> bytes:
    """One SSE event: the single line `data: <JSON>` and an empty line (specification, Events).

    U+0085, U+2028 and U+2029 are escaped: some clients split lines there.
    """
    body = _encoder.encode(event)
    if b"\xc2\x85" in body or b"\xe2\x80" in body:
        body = body.replace(b"\xc2\x85", b"\\u0085")
        body = body.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return b"data: " + body + b"\n\n"
