"""What the server asks of a wire: one table of functions for each protocol that it speaks.

A wire reads a body into the request that the behaviours know (the Messages API's, which says the most) and
writes their replies. Everything between the two is shared.
"""

from collections.abc import Callable, Mapping

import msgspec

from model_demo.wire.errors import ApiError
from model_demo.wire.replies import Reply
from model_demo.wire.requests import MessageRequest
from model_demo.wire.tokens import InputUsage


class Asked(msgspec.Struct, frozen=True):
    """A checked request. `stream_usage`: whether a stream is to tell its usage."""

    request: MessageRequest
    stream_usage: bool = True


class Head(msgspec.Struct, frozen=True):
    """What a reply says about itself; `id` is in the Messages API's form."""

    id: str
    model: str
    usage: InputUsage
    stream_usage: bool = True


class Events(msgspec.Struct, frozen=True):
    """A stream's bytes. Each of `deltas` ends in one content delta, with what must stand before it."""

    head: bytes
    deltas: tuple[bytes, ...]
    tail: bytes


class Wire(msgspec.Struct, frozen=True):
    """One protocol. `check_headers` and `asked` raise ApiError.

    `error` is an error's JSON body, which within a stream stands behind `error_prefix`. `ping` and `garbage`
    are what a stream may hold besides: a sign of life, and an event whose data is no JSON.
    """

    check_headers: Callable[[Mapping[str, str]], None]
    asked: Callable[[bytes], Asked]
    message: Callable[[Head, Reply], bytes]
    events: Callable[[Head, Reply], Events]
    error: Callable[[ApiError, str], bytes]
    error_prefix: bytes
    ping: bytes
    garbage: bytes
    request_id_header: str
