"""Check what callers give: JSON as the structs of `admin_values`, and structs that programs make."""

import re
from typing import Any, TypeVar

import msgspec

from administration.admin_values import UUID
from contracts.admin_errors import Invalid, NotFound
from contracts.ids import is_uuid
from conversations.queries.time_travel import log_time

T = TypeVar("T")
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def checked_time(name: str, text: str) -> str:
    """A time as the log has it, of one in ISO 8601. Raises Invalid."""
    try:
        return log_time(text)
    except ValueError:
        raise Invalid(name, "must be a time in ISO 8601, such as 2026-11-21T09:30:00Z") from None


def read_json(kind: type[T], data: bytes) -> T:
    """Return `data` as a `kind`. Raises Invalid."""
    decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    try:
        value = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("", f"this is not valid JSON: {error}") from None
    assert isinstance(value, kind)
    return value


def converted(kind: type[T], value: Any) -> T:
    """Return a `kind` made of builtins. Raises Invalid."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def checked(value: T) -> T:
    """Return `value` if its fields are what its struct says: a constructor does not look. Raises Invalid."""
    return converted(type(value), msgspec.to_builtins(value))


def identifier(kind: str, text: str) -> str:
    """An id as it is stored. Raises NotFound for what can be none, in the words for one that is unknown."""
    text = text.lower()
    if not is_uuid(text):
        raise NotFound(kind, text[:100].encode("utf-8", "replace").decode().replace("\x00", "\ufffd"))
    return text


def storable(field: str, text: str) -> str:
    """A text that Postgres can be asked for. Raises Invalid."""
    if "\x00" in text or not text.isprintable():
        raise Invalid(field, "holds characters that are in no name")
    return text


def number_of(after: str | None, what: str, *, digits: int = 9) -> int | None:
    """The position in a list that is ordered by a number. Raises Invalid."""
    if after is None:
        return None
    if not (after.isdecimal() and len(after) <= digits):
        raise Invalid("after", f"must be {what}")
    return int(after)


_MISSING_OR_UNKNOWN = re.compile(r"Object (missing required|contains unknown) field `(.*?)`", re.DOTALL)


def _invalid(error: msgspec.ValidationError) -> Invalid:
    """Return msgspec's error with the path of the field apart."""
    reason, _, where = str(error).partition(" - at `$")
    path = where.rstrip("`").removeprefix(".")
    if found := _MISSING_OR_UNKNOWN.fullmatch(reason):
        name = found[2][:100]
        reason = "is required" if found[1].startswith("missing") else "is not known"
        return Invalid(f"{path}.{name}" if path else name, reason)
    if f"matching regex {UUID!r}" in reason:
        reason = "must be a UUID"
    return Invalid(path, reason.replace("Expected", "must be", 1).replace("`", ""))
