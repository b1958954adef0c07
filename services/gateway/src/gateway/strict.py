"""The strict reader of JSON bodies: bounded, UTF-8, not deep, every name once. What it may say is its user's.

Python's and msgspec's own readers take the last of two equal names, and Python's recurses (RELIABILITY S11).
"""

import asyncio
import json
import re
from typing import Any

import msgspec

from contracts.text import is_storable
from gateway.exchange import ClientGone, Exchange
from gateway.problems import Refusal, invalid

MAX_BODY_BYTES = 1024 * 1024
MAX_DEPTH = 32
BODY_SECONDS = 10.0

_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _WrongError(ValueError):
    """A member of an object that must not be: its name, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


async def read_json(exchange: Exchange, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The body of this request, said to be JSON and checked by `check`.

    Raises Refusal: 415, 413, 400; ClientGone.
    """
    _check_media_type(exchange)
    data = await _read_bytes(exchange, max_bytes)
    check(data)
    return data


async def discard(exchange: Exchange, max_bytes: int = MAX_BODY_BYTES) -> None:
    """Read a body that is of no use, so that the connection can be. Raises Refusal: 413, 400; ClientGone."""
    await _read_bytes(exchange, max_bytes)


def check(data: bytes) -> None:
    """UTF-8 with something in it, at most MAX_DEPTH levels, every name once in its object, no lone surrogate.

    Raises Refusal. What it lets pass may still be no JSON.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal("invalid_request", "The body is not valid UTF-8.") from None
    if not data.strip():
        raise Refusal("invalid_request", "The body is empty; it must be a JSON object.")
    if _is_deep(data):
        raise Refusal("invalid_request", f"The body is nested deeper than {MAX_DEPTH} levels.")
    try:
        json.loads(text, object_pairs_hook=_look_through, parse_int=str, parse_float=str)
    except _WrongError as error:
        raise invalid(printable(error.name), error.reason) from None
    except ValueError:
        return  # what is no JSON is said by the decoder, which names the place


def object_of(data: bytes) -> dict[str, msgspec.Raw]:
    """The members of the JSON object in `data`, which `check` has let pass. Raises Refusal."""
    try:
        return _raw_object.decode(data)
    except msgspec.ValidationError:
        raise Refusal("invalid_request", "The body must be a JSON object.") from None
    except msgspec.DecodeError as error:
        raise Refusal("invalid_request", f"The body is not valid JSON: {error}") from None


def printable(name: str) -> str:
    """A caller's own name for a field as it can be told back: short, and with a UTF-8 form."""
    return name[:100].encode("utf-8", "replace").decode()


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


async def _read_bytes(exchange: Exchange, max_bytes: int) -> bytes:
    announced = exchange.header(b"content-length")
    if announced and int(announced[0]) > max_bytes:
        raise _too_large(max_bytes)
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while exchange.unread:
                message = await exchange.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                data += message.get("body", b"")
                if len(data) > max_bytes:
                    raise _too_large(max_bytes)
                exchange.unread = message.get("more_body", False)
    except TimeoutError:
        raise Refusal("invalid_request", "The body did not arrive in time.") from None
    return bytes(data)


def _too_large(max_bytes: int) -> Refusal:
    return Refusal("message_too_large", f"The body is larger than {max_bytes} bytes.")


def _is_deep(data: bytes) -> bool:
    """Whether the JSON is nested deeper than MAX_DEPTH; decides without recursion, in linear time.

    Of the brackets outside strings the innermost pairs are taken away, level by level.
    """
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    left = _STRINGS.sub(b"", data).translate(None, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        left = left.replace(b"[]", b".").replace(b"{}", b".").replace(b".", b"")
        if not left:
            return False
    return b"[]" in left or b"{}" in left or left.count(b"[") + left.count(b"{") > MAX_DEPTH


def _look_through(pairs: list[tuple[str, Any]]) -> None:
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
