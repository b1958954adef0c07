"""The strict reader of JSON bodies: bounded, UTF-8, not deep, every name once.

Python's and msgspec's readers take the last of two equal names, Python's recurses (docs/change/design.md 6).
The time that a body takes is bounded by its bytes and MAX_VALUES; a large one is read next to the event loop.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from litestar.handlers.base import BaseRouteHandler

from administration.checked_input import read_json
from contracts.admin_errors import Invalid
from contracts.text import is_storable
from gateway.http.body_reader import ShareExceeded
from gateway.http.exchange import ClientGone, Connection, Exchange, of
from gateway.http.problem_responses import Refusal, invalid, printable, refusal_of
from gateway.openapi.described import described

MAX_BODY_BYTES = 1024 * 1024
MAX_DEPTH = 32
MAX_VALUES = 10_000
"""Members of objects and elements of arrays, at all levels together."""
LARGE_BODY_BYTES = 16 * 1024
"""Larger bodies are read in a thread: by then a body of nothing but small objects takes 2 ms."""
BODY_SECONDS = 10.0

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_MOST_QUOTES = 4 * MAX_VALUES  # two strings to a member
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])

T = TypeVar("T")


_EMPTY = "The body is empty; it must be a JSON object."
_MANY_BYTES = "The account sends too many bytes in large requests."


class _WrongError(ValueError):
    """A member of an object that must not be: its name, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


async def receive_json(exchange: Exchange, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """This request's body, which is declared as JSON and is not empty.

    Raises Refusal: 415, 413, 400; ClientGone.
    """
    _check_media_type(exchange)
    received = bytearray()
    await _receive(exchange, max_bytes, received.extend)
    if not received:
        raise Refusal("invalid_request", _EMPTY)
    return bytes(received)


async def receive_body(exchange: Exchange) -> bytes:
    """This request's body, whatever it is; b"" for none. Raises Refusal: 413, 400; ClientGone."""
    received = bytearray()
    await _receive(exchange, MAX_BODY_BYTES, received.extend)
    return bytes(received)


async def in_turn(exchange: Exchange, data: bytes, work: Callable[[], T], *, counted: bool = False) -> T:
    """What `work` returns, which is about this body; of a large one in the reader's thread.

    `counted`: its bytes count for the account, which waits where these are too many. Raises Refusal: 429;
    what `work` raises.
    """
    if len(data) <= LARGE_BODY_BYTES:
        return work()
    try:
        return await exchange.reader.run(exchange.account_id, len(data) if counted else 0, work)
    except ShareExceeded as exceeded:
        raise Refusal("rate_limited", _MANY_BYTES, retry_after=exceeded.seconds) from None


def decode(kind: Any, data: bytes) -> Any:
    """The value of the type `kind` in `data`, checked. Raises Refusal: 400, which names the field."""
    check(data)
    try:
        return read_json(kind, data)
    except Invalid as error:
        raise refusal_of(Invalid(error.field or "body", error.reason)) from None


@described("message_too_large")
async def without_body(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: a body is of no use and is read away, so that the connection can go on.

    Raises Refusal: 413, 400; ClientGone.
    """
    await discard(of(connection.scope))


async def discard(exchange: Exchange) -> None:
    """Read a body that is of no use. Raises Refusal: 413, 400; ClientGone."""
    await _receive(exchange, MAX_BODY_BYTES, lambda _: None)


def check(data: bytes) -> Any:
    """UTF-8 with something in it, at most MAX_DEPTH levels and MAX_VALUES values, every name once in its
    object, no lone surrogate.

    Raises Refusal. What it lets pass may still be no JSON; of what is, the value, with 0 for every number.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal("invalid_request", "The body is not valid UTF-8.") from None
    if not data.strip():
        raise Refusal("invalid_request", _EMPTY)
    _check_structure(data)
    try:
        return json.loads(
            text,
            object_pairs_hook=_look_through,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_no_json,
        )
    except _WrongError as error:
        raise invalid(printable(error.name), error.reason) from None
    except ValueError:
        return None  # the decoder reports what is no JSON, and its place


def object_of(data: bytes) -> dict[str, msgspec.Raw]:
    """The members of the JSON object in `data`, which `check` has let pass. Raises Refusal."""
    try:
        return _raw_object.decode(data)
    except msgspec.ValidationError:
        raise Refusal("invalid_request", "The body must be a JSON object.") from None
    except msgspec.DecodeError as error:
        raise Refusal("invalid_request", f"The body is not valid JSON: {error}") from None


def members_of(data: bytes) -> dict[str, Any]:
    """The members of the JSON object in `data`, which is checked: texts as they are, numbers as 0.

    Raises Refusal.
    """
    found = check(data)
    if not isinstance(found, dict):
        object_of(data)  # says what is wrong
        raise Refusal("invalid_request", "The body is not valid JSON.")
    return found


def _check_media_type(exchange: Exchange) -> None:
    values = exchange.header(b"content-type")
    if len(values) != 1 or not _is_json(values[0].decode("latin-1")):
        raise Refusal("unsupported_media_type")
    if any(value.strip().lower() != b"identity" for value in exchange.header(b"content-encoding")):
        raise Refusal("unsupported_media_type", "The body must not be compressed.")


def _is_json(value: str) -> bool:
    """`application/json`, with no parameter but a charset of UTF-8 (RFC 8259 section 11 has none)."""
    media_type, *parameters = (part.strip().lower() for part in value.split(";"))
    return media_type == "application/json" and all(
        parameter.replace('"', "") in ("", "charset=utf-8", "charset=utf8") for parameter in parameters
    )


async def _receive(exchange: Exchange, max_bytes: int, take: Callable[[bytes], None]) -> None:
    """Give the body to `take`, piece by piece as it comes. Raises Refusal: 413, 400; ClientGone."""
    announced = exchange.header(b"content-length")
    if announced and int(announced[0]) > max_bytes:
        raise _too_large(max_bytes)
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while exchange.unread:
                message = await exchange.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                piece = message.get("body", b"")
                size += len(piece)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                take(piece)
                exchange.unread = message.get("more_body", False)
    except TimeoutError:
        raise Refusal("invalid_request", "The body did not arrive in time.") from None


def _too_large(max_bytes: int) -> Refusal:
    return Refusal("message_too_large", f"The body is larger than {max_bytes} bytes.")


def _check_structure(data: bytes) -> None:
    """Count the values, and take the levels, without decoding any of it. Raises Refusal."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # every quote left begins or ends a string
    pieces = bare.split(b'"', _MOST_QUOTES)
    outside = b"".join(pieces[::2])
    values = outside.count(b",") + outside.count(b"[") + outside.count(b"{")
    if len(pieces) > _MOST_QUOTES or values > MAX_VALUES:
        raise Refusal("invalid_request", f"The body has more than {MAX_VALUES} members and elements.")
    if _is_deep(outside.translate(None, _NOT_BRACKETS)):
        raise Refusal("invalid_request", f"The body is nested deeper than {MAX_DEPTH} levels.")


def _is_deep(left: bytes) -> bool:
    """Whether these brackets are nested deeper than MAX_DEPTH; decides without recursion, in linear time.

    The innermost pairs are taken away, level by level.
    """
    for _ in range(MAX_DEPTH):
        left = left.replace(b"[]", b".").replace(b"{}", b".").replace(b".", b"")
        if not left:
            return False
    return b"[]" in left or b"{}" in left or left.count(b"[") + left.count(b"{") > MAX_DEPTH


def _number(_: str) -> int:
    """Its size is the caller's choice, and nobody asks for it."""
    return 0


def _no_json(name: str) -> None:
    raise ValueError(name)  # NaN, Infinity


def _look_through(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of one object. Raises _WrongError."""
    names: set[str] = set()
    for name, value in pairs:
        if name in names:
            raise _WrongError(name, "This field is given twice.")
        if not is_storable(name):
            raise _WrongError(name, "The name of this field holds a lone surrogate.")
        if isinstance(value, str) and not is_storable(value):
            raise _WrongError(name, "The text holds a lone surrogate.")
        names.add(name)
    return dict(pairs)
