"""The strict reader of a chat body: nothing unknown, nothing too large, nothing that cannot be stored."""

import asyncio
import json
import re

import msgspec

from contracts import http
from contracts.text import is_storable
from gateway.exchange import ClientGone, Exchange
from gateway.problems import Refusal, invalid

MAX_BODY_BYTES = 1024 * 1024
MAX_MESSAGE_BYTES = 256 * 1024
MAX_PROMPT_BYTES = 64 * 1024
MAX_DEPTH = 32
_BODY_SECONDS = 10.0

_FIELDS = ("message", "conversation_id", "prompt")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str | None)


async def read(exchange: Exchange, max_message_bytes: int | None) -> http.ChatBody:
    """The body of this request, checked; `max_message_bytes` is the plan's own bound.

    Raises Refusal: 415, 413, 400 with every wrong field's name; ClientGone.
    """
    _check_media_type(exchange)
    return parse(await _read_bytes(exchange), max_message_bytes)


def parse(data: bytes, max_message_bytes: int | None = None) -> http.ChatBody:
    """The chat body in `data`. Raises Refusal."""
    fields = _object(data)
    wrong = [
        http.FieldError(field=name[:100], message="This field is not known.")
        for name in fields.keys() - {*_FIELDS}
    ]
    texts = {name: _text(fields.get(name), name, wrong) for name in _FIELDS}
    message, prompt = texts["message"], texts["prompt"]
    if message is None and not any(error.field == "message" for error in wrong):
        wrong.append(http.FieldError(field="message", message="This field is required, and is a string."))
    elif message is not None and not message.strip():
        wrong.append(http.FieldError(field="message", message="The message is blank."))
    if wrong:
        wrong.sort(key=lambda error: error.field)
        named = "; ".join(f"{error.field}: {error.message}" for error in wrong[:5])
        raise Refusal("invalid_request", named, fields=wrong[:20])
    assert message is not None
    limit = min(MAX_MESSAGE_BYTES, max_message_bytes or MAX_MESSAGE_BYTES)
    _check_size("message", message, limit)
    _check_size("prompt", prompt or "", MAX_PROMPT_BYTES)
    return http.ChatBody(message=message, conversation_id=texts["conversation_id"], prompt=prompt)


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


async def _read_bytes(exchange: Exchange) -> bytes:
    announced = exchange.header(b"content-length")
    if announced and announced[0].isdigit() and int(announced[0]) > MAX_BODY_BYTES:
        raise _too_large()
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while exchange.unread:
                message = await exchange.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                data += message.get("body", b"")
                if len(data) > MAX_BODY_BYTES:
                    raise _too_large()
                exchange.unread = message.get("more_body", False)
    except TimeoutError:
        raise Refusal("invalid_request", "The body did not arrive in time.") from None
    return bytes(data)


def _too_large() -> Refusal:
    return Refusal("message_too_large", f"The body is larger than {MAX_BODY_BYTES} bytes.")


def _object(data: bytes) -> dict[str, msgspec.Raw]:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal("invalid_request", "The body is not valid UTF-8.") from None
    if not data.strip():
        raise Refusal("invalid_request", "The body is empty; it must be a JSON object.")
    if _is_deep(data):
        raise Refusal("invalid_request", f"The body is nested deeper than {MAX_DEPTH} levels.")
    try:
        return _raw_object.decode(data)
    except msgspec.ValidationError:
        raise Refusal("invalid_request", "The body must be a JSON object.") from None
    except msgspec.DecodeError as error:
        raise _malformed(data, error) from None


def _malformed(data: bytes, error: msgspec.DecodeError) -> Refusal:
    """What to say of a body that does not decode; a lone surrogate in a field is said by its name."""
    try:
        fields = json.loads(data)
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        for name, value in fields.items():
            if not is_storable(name):
                return Refusal("invalid_request", "The name of a field holds a lone surrogate.")
            if isinstance(value, str) and not is_storable(value):
                return invalid(name[:100], "The text holds a lone surrogate.")
    return Refusal("invalid_request", f"The body is not valid JSON: {error}")


def _is_deep(data: bytes) -> bool:
    """Whether the JSON is nested deeper than MAX_DEPTH; decides without recursion, in linear time.

    Of the brackets outside strings the innermost pairs are taken away, level by level.
    """
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    left = _STRINGS.sub(b"", data).translate(None, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        left = left.replace(b"[]", b"").replace(b"{}", b"")
        if not left:
            return False
    return b"[]" in left or b"{}" in left or left.count(b"[") + left.count(b"{") > MAX_DEPTH


def _text(raw: msgspec.Raw | None, name: str, wrong: list[http.FieldError]) -> str | None:
    """A field's string with NUL replaced (Postgres cannot hold it); null counts as left out."""
    try:
        text = None if raw is None else _string.decode(raw)
    except msgspec.DecodeError:
        wrong.append(http.FieldError(field=name, message="This field must be a string."))
        return None
    return text if text is None else text.replace("\x00", "\ufffd")


def _check_size(name: str, text: str, limit: int) -> None:
    if len(text) * 4 > limit and len(text.encode()) > limit:
        message = f"It is longer than {limit} bytes of UTF-8."
        raise Refusal(
            "message_too_large", f"{name}: {message}", fields=[http.FieldError(field=name, message=message)]
        )
