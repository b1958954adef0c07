"""Read JSON of servers that get types wrong: any scalar is text, counts and indexes may be strings.

Numbers keep their digits: "$1.10" in two pieces, of which the second is the number 1.10, is "$1.10".
"""

import json
import math
from typing import Any

import msgspec

from agentchat.contracts.text_checks import clean_text
from agentchat.orchestrator.models.sse_reader import StreamBroken

_HIGH_SURROGATES = ("\ud800", "\udbff")


class NumberText:
    """A number that is no integer, as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text


_decoder = msgspec.json.Decoder(float_hook=NumberText)


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode an event's data. Raises StreamBroken if it is no JSON object."""
    try:
        try:
            value = _decoder.decode(data)
        except ValueError:
            # Lone surrogates, NaN and stray bytes are rare; a slower, more tolerant parser reads them.
            value = json.loads(_decode_text(data), parse_float=NumberText, parse_constant=NumberText)
    except RecursionError as error:
        raise StreamBroken("an event nested without end") from error
    except ValueError as error:
        raise StreamBroken("an event that is not JSON of the protocol") from error
    if not isinstance(value, dict):
        raise StreamBroken("an event that is no object")
    return value


def _decode_text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")  # some servers encode each half of a pair by itself
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def to_text(value: Any) -> str:
    """Return the text that `value` stands for: a scalar's JSON, "" for null, a list or an object."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case NumberText():
            return value.text
        case _:
            return ""


def to_int(value: Any) -> int | None:
    """Return an index or a count, which may be a string or 12.0; None for anything else."""
    match value:
        case bool():
            return None
        case int():
            return value
        case NumberText() | str():
            try:
                number = float(to_text(value))
            except ValueError:
                return None
            return int(number) if math.isfinite(number) else None
        case _:
            return None


def get_object(value: Any, field: str) -> dict[str, Any]:
    """Return the object in a field of `value`; {} if there is none."""
    found = value.get(field) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def get_objects(value: Any, field: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a field of `value`, or the one object there."""
    found = value.get(field) if isinstance(value, dict) else None
    if isinstance(found, dict):
        return [found]
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def encode_loose(value: Any) -> str:
    """Encode a decoded value as the JSON that it was, numbers included."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{encode_loose(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode_loose, value)) + "]"
    return value.text if isinstance(value, NumberText) else json.dumps(value)


def to_plain(value: Any) -> Any:
    """Return a decoded value with ordinary numbers, for what is stored and sent back as it came."""
    return json.loads(encode_loose(value), parse_float=_to_float, parse_constant=lambda _: None)


def _to_float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


class TextJoiner:
    """Joins pieces of a text, and the halves of a surrogate pair that two pieces have."""

    def __init__(self) -> None:
        self._high = ""

    def join(self, piece: str) -> str:
        """Return the text that `piece` adds, cleaned; half a character waits for its other half."""
        if not self._high and piece.isascii():
            return clean_text(piece)
        text = self._high + piece
        self._high = text[-1] if text and _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1] else ""
        return clean_text(text[:-1] if self._high else text)

    def flush(self) -> str:
        """Return U+FFFD for half a character whose other half never arrived, else ""."""
        high, self._high = self._high, ""
        return clean_text(high)


def parse_finite(text: str) -> float:
    """Convert a JSON number. Raises ValueError for one beyond the range of floats."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def reject_constant(text: str) -> float:
    """Refuse NaN and Infinity, which are no JSON. Raises ValueError."""
    raise ValueError(text)
