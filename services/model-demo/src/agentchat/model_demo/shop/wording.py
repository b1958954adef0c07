"""Tool results in readable Markdown: a sentence first, then a list of what else there is."""

import calendar
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agentchat.model_demo.shop import words

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


def word_result(text: str, *, is_error: bool) -> str:
    """What a tool gave back, for a reader: JSON or plain text, a result or an error."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # also JSON nested deeper than anybody reads
        value = text
    if isinstance(value, dict) and list(value) in (["text"], ["error"]):
        is_error = is_error or "error" in value
        (value,) = value.values()
    if is_error:
        return _failure(value)
    try:
        shown = "\n".join(_lines(value)).strip()
    except RecursionError:
        shown = text
    return words.shortened(shown, 10 * _MOST_TEXT) or "There was nothing to show."


def _failure(error: Any) -> str:
    reason = str(error.get("message", error) if isinstance(error, dict) else error).strip().rstrip(".")
    hint = next(hint for pattern, hint in _HINTS.items() if re.search(pattern, reason, re.IGNORECASE))
    return f"Sorry, that did not work: {reason or 'no reason was given'}. {hint}"


def _lines(value: Any) -> Iterator[str]:
    """The sentence that names the thing and its state, its other fields, then its lists."""
    if not isinstance(value, dict):
        yield from _items(value, "") if isinstance(value, list) else [_scalar("", value, "")]
        return
    currency = str(value.get("currency", ""))
    head, rest = _headed(value)
    state = next((rest.pop(name) for name in _STATES if head and isinstance(rest.get(name), str)), None)
    if head:
        yield f"{head} is **{_scalar('', state, '')}**." if state else f"{head}:"
    lists = {name: one for name, one in rest.items() if isinstance(one, list) and isinstance(one[0], dict)}
    for name, one in rest.items():
        if name not in lists:
            yield f"- {words.label(name).capitalize()}: {_inline(name, one, currency)}"
    for name, items in lists.items():
        yield f"\n**{words.label(name).capitalize()}**"
        yield from _items(items, currency)
    if not head and not lists:
        yield from (f"No {words.label(name)}." for name, one in value.items() if one == [])


def _items(items: list[Any], currency: str) -> Iterator[str]:
    yield from (f"- {_inline('', item, currency, in_list=True)}" for item in items[:_MOST_ITEMS])
    if len(items) > _MOST_ITEMS:
        yield f"- … and {len(items) - _MOST_ITEMS} more"


def _headed(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The thing's name and id, bold, as far as it has them; and its other fields that are not empty."""
    title = next((name for name in _TITLES if isinstance(value.get(name), str)), None)
    first = next(iter(value), "")
    key = first if first.endswith("id") and isinstance(value[first], str) else None
    named = [value[name] for name in (title, key) if name]
    rest = {name: one for name, one in value.items() if name not in (title, key, "currency")}
    head = f"**{named[0]}**" + (f" ({named[1]})" if named[1:] else "") if named else ""
    return head, {name: one for name, one in rest.items() if one not in (None, "", [], {})}


def _inline(name: str, value: Any, currency: str, *, in_list: bool = False) -> str:
    """A value within a line; an object by its name and its details, or its parts."""
    if isinstance(value, list):
        more = [f"{len(value) - _MOST_ITEMS} more"] if len(value) > _MOST_ITEMS else []
        return ", ".join([*(_inline(name, one, currency) for one in value[:_MOST_ITEMS]), *more])
    if not isinstance(value, dict):
        return _scalar(name, value, currency)
    currency = str(value.get("currency", currency))
    head, rest = _headed(value)
    shown = [(n, one, _inline(n, one, currency)) for n, one in list(rest.items())[:_MOST_INLINE]]
    is_parts = not head and not in_list
    details = [
        inline
        if is_parts and isinstance(one, str) and not _DAY.fullmatch(one)
        else f"{words.label(n)} {inline}"
        for n, one, inline in shown
    ]
    return ": ".join(filter(None, [head, (", " if is_parts else "; ").join(details)]))


def _scalar(name: str, value: Any, currency: str) -> str:
    """A value without parts: money, days, yes and no in words."""
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
    return words.shortened(str(spaced), _MOST_TEXT)
