"""Tool results in readable Markdown: a sentence first, then a list of what else there is."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from model_demo.shop import entities, values
from model_demo.shop.values import label, scalar

_MOST_FIELDS = 12
_MOST_PLAIN = 4000
_MOST_ITEMS = 8
_MOST_INLINE = 6
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_TITLES = ("name", "title", "subject", "label")
_STATES = ("status", "state", "order_status")
_NOT_FOUND = re.compile(
    r"\b(?:no such|not found|unknown|does not exist|there is no|no order|no customer)\b", re.IGNORECASE
)
_LATE = re.compile(r"\b(?:time|timed|timeout|unavailable|overloaded|connect\w*)\b", re.IGNORECASE)


def result(text: str, *, is_error: bool) -> str:
    """What a tool gave back, for a reader: JSON or plain text, a result or an error."""
    try:
        return _worded(_decoded(text), is_error=is_error)
    except RecursionError:
        # Nested deeper than anybody reads.
        return values.shortened(text, _MOST_PLAIN)


def _worded(value: Any, *, is_error: bool) -> str:
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, dict) and value.get("error") is not None and (is_error or len(value) == 1):
        return _failure(value["error"])
    if is_error:
        return _failure(value)
    if isinstance(value, str):
        return values.shortened(value.strip(), _MOST_PLAIN) or "There was nothing to show."
    return "\n".join(_lines(value, "")).strip()


def _failure(error: Any) -> str:
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or msgspec.json.encode(error).decode()
    reason = str(error).strip().rstrip(".") or "no reason was given"
    if _NOT_FOUND.search(reason):
        hint = "Please check the spelling, or tell me another one."
    elif _LATE.search(reason):
        hint = "Please try again in a moment."
    else:
        hint = "If you change that, I can try again."
    return f"Sorry, that did not work: {reason}. {hint}"


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _lines(value: Any, currency: str) -> Iterator[str]:
    if isinstance(value, list):
        yield from _items(value, currency)
    elif isinstance(value, dict):
        yield from _object(value, str(value.get("currency") or currency))
    else:
        yield scalar("", value, currency)


def _object(value: dict[str, Any], currency: str) -> Iterator[str]:
    """The sentence that names the thing and its state, its other fields, then its lists."""
    used = {"currency"}
    if sentence := _sentence(value, used):
        yield sentence
    lists = {name: one for name, one in value.items() if isinstance(one, list) and _has_objects(one)}
    plain = [(n, v) for n, v in value.items() if n not in used and n not in lists and v not in _EMPTY]
    empty = [label(name).lower() for name, one in value.items() if one == []]
    if empty and not lists:
        yield f"No {', no '.join(empty)}."
    for name, one in plain[:_MOST_FIELDS]:
        yield f"- {label(name)}: {_inline(name, one, currency)}"
    for name, items in lists.items():
        yield ""
        yield f"**{label(name)}**"
        yield from _items(items, currency)
    if not (lists or plain or sentence or empty):
        yield "There was nothing to show."


def _items(items: list[Any], currency: str) -> Iterator[str]:
    for item in items[:_MOST_ITEMS]:
        yield f"- {_item(item, currency)}"
    if len(items) > _MOST_ITEMS:
        yield f"- … and {len(items) - _MOST_ITEMS} more"
    if not items:
        yield "Nothing was found."


def _item(item: Any, currency: str) -> str:
    """One line of a list: what the thing is called, then what is told of it."""
    if not isinstance(item, dict):
        return _inline("", item, currency)
    currency = str(item.get("currency") or currency)
    used = {"currency"}
    head, joint = _head(item, used), ": "
    if not head and (inner := next((name for name, one in item.items() if _is_named(one)), None)):
        used.add(inner)
        head, joint = _item(item[inner], currency), "; "
    rest = [(n, v) for n, v in item.items() if n not in used and v not in _EMPTY]
    told = "; ".join(
        f"{label(name).lower()} {_inline(name, one, currency)}" for name, one in rest[:_MOST_INLINE]
    )
    return joint.join(filter(None, (head, told)))


def _sentence(value: dict[str, Any], used: set[str]) -> str:
    head = _head(value, used)
    state = next((name for name in _STATES if isinstance(value.get(name), str)), None)
    if head and state:
        used.add(state)
        return f"{head} is **{scalar(state, value[state], '')}**."
    return f"{head}:" if head else ""


def _head(value: dict[str, Any], used: set[str]) -> str:
    """The thing's name and id, bold: what it is called by."""
    title = next((name for name in _TITLES if isinstance(value.get(name), str) and value[name]), None)
    key = next((n for n, one in value.items() if isinstance(one, str) and entities.ID.fullmatch(one)), None)
    if key is not None and not (key == "id" or key.endswith("_id")):
        key = None
    used.update(name for name in (title, key) if name)
    if title and key:
        return f"**{value[title]}** ({value[key]})"
    named = title or key
    return f"**{value[named]}**" if named else ""


def _inline(name: str, value: Any, currency: str) -> str:
    """A value within a line; an object by its name, or its parts with commas between."""
    if isinstance(value, dict):
        return _item(value, currency) if _is_named(value) else _parts(value, currency)
    if isinstance(value, list):
        shown = [_inline(name, one, currency) for one in value[:_MOST_ITEMS]]
        more = f" and {len(value) - _MOST_ITEMS} more" if len(value) > _MOST_ITEMS else ""
        return ", ".join(shown) + more
    return values.scalar(name, value, currency)


def _parts(value: dict[str, Any], currency: str) -> str:
    inner = str(value.get("currency") or currency)
    told = [(n, v) for n, v in value.items() if n != "currency" and v not in _EMPTY]
    return ", ".join(
        _inline(n, v, inner)
        if isinstance(v, str) and not values.is_day(v)
        else f"{label(n).lower()} {_inline(n, v, inner)}"
        for n, v in told[:_MOST_INLINE]
    )


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and bool(_head(value, set()))


def _has_objects(items: list[Any]) -> bool:
    return any(isinstance(item, dict) for item in items)
