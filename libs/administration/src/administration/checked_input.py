"""What callers give, checked: JSON into the structs of `admin_values`, and structs that programs make.

The decoder's messages speak of Python; these name the field and say what would do.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as info

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
    """`data` as a `kind`. Raises Invalid."""
    decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    try:
        value = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _explained(kind, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("", f"this is not valid JSON: {error}") from None
    assert isinstance(value, kind)
    return value


def checked(value: T) -> T:
    """`value`, if its fields are what its struct says: a constructor does not look. Raises Invalid."""
    kind = type(value)
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except msgspec.ValidationError as error:
        raise _explained(kind, str(error)) from None


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


_MISSING = re.compile(r"Object missing required field `(.*?)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_TYPES = re.compile(r"`([a-z |]+)`")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def _explained(kind: type, text: str) -> Invalid:
    reason, _, where = text.rpartition(" - at `")
    if not reason:
        reason, where = text, ""
    path = where.rstrip("`").partition("$")[2].removeprefix(".")
    if missing := _MISSING.fullmatch(reason):
        return Invalid(_joined(path, missing[1]), "is required")
    if unknown := _UNKNOWN.fullmatch(reason):
        return Invalid(_joined(path, unknown[1][:100]), "is not known")
    if reason.startswith("Invalid enum value"):
        return Invalid(path, f"must be one of {', '.join(_choices(kind, path))}")
    if f"matching regex {UUID!r}" in reason:
        return Invalid(path, "must be a UUID")
    reason = _TYPES.sub(lambda types: _spoken(types[1]), reason)
    return Invalid(path, reason.replace("Expected", "must be", 1).replace(", got", ", not"))


def _spoken(types: str) -> str:
    return " or ".join(_WORDS.get(each, each) for each in types.split(" | "))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _choices(kind: type, path: str) -> list[str]:
    """The texts that the field at `path` may hold; `path` is as msgspec gives it, such as `events[0]`."""
    found = [info.type_info(kind)]
    for name in re.findall(r"\[[^]]*]|[^.[]+", path):
        found = [inner for each in found for inner in _inner(each, name)]
    literals = [each for outer in found for each in _alternatives(outer)]
    return [str(value) for each in literals if isinstance(each, info.LiteralType) for value in each.values]


def _inner(outer: info.Type, name: str) -> Iterator[info.Type]:
    """The types of a field, or of the elements where `name` is an index."""
    for each in _alternatives(outer):
        if isinstance(each, info.StructType):
            yield from (field.type for field in each.fields if field.encode_name == name)
        elif isinstance(each, info.CollectionType):
            yield each.item_type
        elif isinstance(each, info.DictType):
            yield each.value_type


def _alternatives(outer: info.Type) -> Iterator[info.Type]:
    if isinstance(outer, info.Metadata):
        yield from _alternatives(outer.type)
    elif isinstance(outer, info.UnionType):
        for each in outer.types:
            yield from _alternatives(each)
    else:
        yield outer
