"""Turn tool results into Markdown: a sentence, then a list of the other fields."""

import calendar
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agentchat.model_demo.assistant import words

_MOST_INLINE, _MOST_ITEMS, _MOST_TEXT = 6, 8, 400
_TITLES = ("name", "title", "subject")
_STATES = ("status", "state", "order_status")
_RATIOS = {"percent", "rating", "score", "similarity"}
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:T(\d{2}:\d{2})\S*)?")
_CODE_WORD = re.compile(r"[a-z]+(?:_[a-z]+)+")
_HINTS = {
    r"no such|not found|unknown|does not exist|there is no": "Please check the spelling.",
    r"timed? ?out|unavailable|overloaded|connect": "Please try again in a moment.",
    "": "If you change that, I can try again.",
}


def write_result(text: str, *, is_error: bool) -> str:
    """Return a tool's result or error as Markdown."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # also JSON nested deeper than anybody reads
        value = text
    if isinstance(value, dict) and list(value) in (["text"], ["error"]):
        is_error = is_error or "error" in value
        (value,) = value.values()
    if is_error:
        return _write_failure(value)
    try:
        shown = "\n".join(_write_lines(value)).strip()
    except RecursionError:
        shown = text
    return words.shorten(shown, 10 * _MOST_TEXT) or "There was nothing to show."


def _write_failure(error: Any) -> str:
    reason = str(error.get("message", error) if isinstance(error, dict) else error).strip().rstrip(".")
    hint = next(hint for pattern, hint in _HINTS.items() if re.search(pattern, reason, re.IGNORECASE))
    return f"Sorry, that did not work: {reason or 'no reason was given'}. {hint}"


def _write_lines(value: Any) -> Iterator[str]:
    """Yield a sentence with the object's name and state, its other fields, then its lists."""
    if not isinstance(value, dict):
        yield from _write_items(value, "") if isinstance(value, list) else [_write_scalar("", value, "")]
        return
    currency = str(value.get("currency", ""))
    head, rest = _split_heading(value)
    state = next((rest.pop(name) for name in _STATES if head and isinstance(rest.get(name), str)), None)
    if head:
        yield f"{head} is **{_write_scalar('', state, '')}**." if state else f"{head}:"
    lists = {name: one for name, one in rest.items() if isinstance(one, list) and isinstance(one[0], dict)}
    for name, one in rest.items():
        if name not in lists:
            yield f"- {words.to_label(name).capitalize()}: {_write_inline(name, one, currency)}"
    for name, items in lists.items():
        yield f"\n**{words.to_label(name).capitalize()}**"
        yield from _write_items(items, currency)
    if not head and not lists:
        yield from (f"No {words.to_label(name)}." for name, one in value.items() if one == [])


def _write_items(items: list[Any], currency: str) -> Iterator[str]:
    yield from (f"- {_write_inline('', item, currency, in_list=True)}" for item in items[:_MOST_ITEMS])
    if len(items) > _MOST_ITEMS:
        yield f"- … and {len(items) - _MOST_ITEMS} more"


def _split_heading(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the object's name and id in bold, and its other non-empty fields."""
    title = next((name for name in _TITLES if isinstance(value.get(name), str)), None)
    first = next(iter(value), "")
    key = first if first.endswith("id") and isinstance(value[first], str) else None
    named = [value[name] for name in (title, key) if name]
    rest = {name: one for name, one in value.items() if name not in (title, key, "currency")}
    head = f"**{named[0]}**" + (f" ({named[1]})" if named[1:] else "") if named else ""
    return head, {name: one for name, one in rest.items() if one not in (None, "", [], {})}


def _write_inline(name: str, value: Any, currency: str, *, in_list: bool = False) -> str:
    """Return a value within a line; an object as its name and details."""
    if isinstance(value, list):
        more = [f"{len(value) - _MOST_ITEMS} more"] if len(value) > _MOST_ITEMS else []
        return ", ".join([*(_write_inline(name, one, currency) for one in value[:_MOST_ITEMS]), *more])
    if not isinstance(value, dict):
        return _write_scalar(name, value, currency)
    currency = str(value.get("currency", currency))
    head, rest = _split_heading(value)
    shown = [(n, one, _write_inline(n, one, currency)) for n, one in list(rest.items())[:_MOST_INLINE]]
    is_parts = not head and not in_list
    details = [
        inline
        if is_parts and isinstance(one, str) and not _DAY.fullmatch(one)
        else f"{words.to_label(n)} {inline}"
        for n, one, inline in shown
    ]
    return ": ".join(filter(None, [head, (", " if is_parts else "; ").join(details)]))


def _write_scalar(name: str, value: Any, currency: str) -> str:
    """Return a scalar as text: money, dates, yes or no."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float) and _RATIOS.isdisjoint(name.split("_")):
        return f"{_SIGNS.get(currency, '')}{value:,.2f}"
    if isinstance(value, int | float):
        return (f"{value:g}" if isinstance(value, float) else f"{value:,}") + "%" * ("percent" in name)
    if match := _DAY.fullmatch(value):
        year, month, day, time = match.groups()
        return f"{int(day)} {calendar.month_name[int(month)]} {year}" + (f", {time}" if time else "")
    spaced = value.replace("_", " ") if _CODE_WORD.fullmatch(value) else " ".join(value.split())
    return words.shorten(str(spaced), _MOST_TEXT)
