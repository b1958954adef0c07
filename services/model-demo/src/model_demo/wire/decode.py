"""Bytes to a request; what does not fit is told in the API's way, by the field's dotted path."""

import re
from typing import TypeVar

import msgspec

from model_demo.wire.errors import invalid
from model_demo.wire.requests import CountRequest, MessageRequest

R = TypeVar("R", bound=CountRequest)

_message_decoder = msgspec.json.Decoder(MessageRequest)
_count_decoder = msgspec.json.Decoder(CountRequest)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]+)`")


def message_request(raw: bytes) -> MessageRequest:
    """The body of `POST /v1/messages`. Raises ApiError 400."""
    return _decode(_message_decoder, raw)


def count_request(raw: bytes) -> CountRequest:
    """The body of `POST /v1/messages/count_tokens`. Raises ApiError 400."""
    return _decode(_count_decoder, raw)


def _decode(decoder: msgspec.json.Decoder[R], raw: bytes) -> R:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise invalid(_say(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise invalid("The request body is not valid JSON") from None


def _say(problem: str) -> str:
    reason, _, path = problem.partition(" - at `")
    where = [part for part in re.split(r"[.\[\]`$]+", path) if part]
    if match := _MISSING.match(reason):
        return f"{'.'.join([*where, match['field']])}: Field required"
    if match := _UNKNOWN.match(reason):
        return f"{'.'.join([*where, match['field']])}: Extra inputs are not permitted"
    return f"{'.'.join(where)}: {reason}" if where else reason
