"""Values of tool results in words: money, days, yes and no."""

import calendar
import re
from typing import Any

from model_demo.shop import words

_MONEY = words.listed(
    "price total amount revenue cost subtotal discount refund balance value spent tax shipping fee saving"
    " goods delivery difference"
)
_PERCENT = frozenset(("percent", "pct", "percentage"))
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}:\d{2})\S*)?")
_CODE_WORD = re.compile(r"[a-z]+(?:_[a-z]+)+")
_MOST_TEXT = 400


def label(name: str) -> str:
    """`expected_on` as "Expected on"."""
    text = words.label(name)
    return text[:1].upper() + text[1:]


def scalar(name: str, value: Any, currency: str) -> str:
    """A value without parts, as a reader wants it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(set(words.label(name).split()), value, currency)
    return _text(str(value))


def is_day(value: str) -> bool:
    """Whether a text is a day or a time of a day."""
    return _DAY.fullmatch(value) is not None


def _number(kinds: set[str], value: float, currency: str) -> str:
    if kinds & _PERCENT:
        return f"{value:,.1f}%".replace(".0%", "%")
    is_money = bool(kinds & _MONEY) and not kinds & {"count", "units", "orders", "items", "id", "results"}
    if is_money and (currency or isinstance(value, float)):
        sign = _SIGNS.get(currency, "")
        return f"{sign}{value:,.2f}" if sign or not currency else f"{value:,.2f} {currency}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")


def _text(value: str) -> str:
    if match := _DAY.fullmatch(value):
        year, month, day, time = match.groups()
        if 1 <= int(month) <= 12:
            return f"{int(day)} {calendar.month_name[int(month)]} {year}" + (f", {time}" if time else "")
    if _CODE_WORD.fullmatch(value):
        return value.replace("_", " ")
    return shortened(" ".join(value.split()), _MOST_TEXT)


def shortened(text: str, most: int) -> str:
    """The text, or its first `most` characters and a sign that there is more."""
    return text if len(text) <= most else text[:most].rstrip() + "…"
