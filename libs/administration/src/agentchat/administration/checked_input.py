"""Check input of callers: JSON as the structs of `admin_values`, and structs that programs build."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import inspect

from agentchat.administration.admin_values import UUID
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.contracts.ids import is_uuid
from agentchat.conversations.aggregate.conversation import RunState
from agentchat.conversations.projections.feedback_table import RATINGS
from agentchat.conversations.queries.sorted_list import SortedList, SortOrder
from agentchat.conversations.queries.time_travel import log_time

T = TypeVar("T")
RUN_STATES: tuple[RunState, ...] = get_args(RunState)
WAITING = "waiting"
"""The state of a run in filters that waits for a decision about a tool call; it is running, too."""
_CHOICES = {"state": (*RUN_STATES, WAITING), "end": RUN_STATES, "rating": RATINGS}
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def parse_time(name: str, text: str) -> str:
    """Parse a time in ISO 8601 into the log's form. Raises Invalid."""
    try:
        return log_time(text)
    except ValueError:
        raise Invalid(name, "must be a time in ISO 8601, such as 2026-11-21T09:30:00Z") from None


def parse_order(listed: SortedList, text: str | None) -> SortOrder:
    """Parse what a list is sorted by; None is its last activity. Raises Invalid."""
    order = SortOrder() if text is None else SortOrder.parse(text)
    if order.column not in listed.keys:
        raise Invalid("sort", f"must be one of {', '.join(listed.keys)}, with :asc for the least first")
    return order


def check_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Check the filters of a list, and return those that are set, by the names that queries have for them.

    Raises Invalid.
    """
    checked = {name: _check_filter(name, value) for name, value in filters.items() if value is not None}
    return {"user_id" if name == "user" else name: value for name, value in checked.items()}


def _check_filter(name: str, value: Any) -> Any:
    if name in _CHOICES and value not in _CHOICES[name]:
        raise Invalid(name, f"must be one of {', '.join(_CHOICES[name])}")
    if name in ("since", "until"):
        return parse_time(name, value)
    return check_storable(name, value) if isinstance(value, str) else value


def read_json(kind: type[T], data: bytes) -> T:
    """Return `data` as a `kind`. Raises Invalid."""
    decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    try:
        value = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _build_error(kind, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("", f"this is not valid JSON: {error}") from None
    assert isinstance(value, kind)
    return value


def convert(kind: type[T], value: Any) -> T:
    """Return a `kind` made of builtins. Raises Invalid."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _build_error(kind, error) from None


def validate(value: T) -> T:
    """Return `value` if its fields are what its struct says: a constructor does not look. Raises Invalid."""
    return convert(type(value), msgspec.to_builtins(value))


def parse_id(kind: str, text: str) -> str:
    """Return an id as it is stored. Raises NotFound for text that cannot be an id."""
    text = text.lower()
    if not is_uuid(text):
        raise NotFound(kind, text[:100].encode("utf-8", "replace").decode().replace("\x00", "\ufffd"))
    return text


def check_storable(field: str, text: str) -> str:
    """Return the text if Postgres can search for it. Raises Invalid."""
    if "\x00" in text or not text.isprintable():
        raise Invalid(field, "holds characters that are in no name")
    return text


def parse_number(after: str | None, what: str, *, digits: int = 9) -> int | None:
    """Parse a position in a list that is ordered by a number. Raises Invalid."""
    if after is None:
        return None
    if not (after.isdecimal() and len(after) <= digits):
        raise Invalid("after", f"must be {what}")
    return int(after)


_MISSING_OR_UNKNOWN = re.compile(r"Object (missing required|contains unknown) field `(.*?)`", re.DOTALL)


def _build_error(kind: type, error: msgspec.ValidationError) -> Invalid:
    """Translate msgspec's error: separate the field's path, and list the values that the field may have."""
    reason, _, where = str(error).partition(" - at `$")
    path = where.rstrip("`").removeprefix(".")
    if found := _MISSING_OR_UNKNOWN.fullmatch(reason):
        name = found[2][:100]
        reason = "is required" if found[1].startswith("missing") else "is not known"
        return Invalid(f"{path}.{name}" if path else name, reason)
    if f"matching regex {UUID!r}" in reason:
        reason = "must be a UUID"
    elif " matching regex " in reason:
        reason = "has the wrong format: it is too long, or has characters that are not allowed"
    elif reason.startswith("Invalid enum value"):
        reason = f"must be one of {', '.join(_list_allowed_values(kind, path))}"
    return Invalid(path, reason.replace("Expected", "must be", 1).replace("`", ""))


def _list_allowed_values(kind: type, path: str) -> list[str]:
    """List the texts that the field at `path` may have; `path` is msgspec's, such as `events[...]`."""
    types = [inspect.type_info(kind)]
    for name in re.findall(r"\[[^]]*]|[^.[]+", path):
        types = [inner for each in types for inner in _iterate_inner_types(each, name)]
    options = [option for each in types for option in _iterate_alternatives(each)]
    return [str(value) for each in options if isinstance(each, inspect.LiteralType) for value in each.values]


def _iterate_inner_types(outer: inspect.Type, name: str) -> Iterator[inspect.Type]:
    """Yield the types of a field, or of the elements if `name` is an index."""
    for each in _iterate_alternatives(outer):
        if isinstance(each, inspect.StructType):
            yield from (field.type for field in each.fields if field.encode_name == name)
        elif isinstance(each, inspect.CollectionType):
            yield each.item_type
        elif isinstance(each, inspect.DictType):
            yield each.value_type


def _iterate_alternatives(outer: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(outer, inspect.Metadata):
        yield from _iterate_alternatives(outer.type)
    elif isinstance(outer, inspect.UnionType):
        for each in outer.types:
            yield from _iterate_alternatives(each)
    else:
        yield outer
