"""Numbers, prices, stars and days in a message, found by what the property is called."""

import calendar
import re
from typing import Any

from model_demo.shop import entities, words
from model_demo.shop.schemas import Schema

_N = r"[$€£]?\s?(\d[\d,]*(?:\.\d+)?)"
_UNIT = r"(?:\s?(?:[$€£]|eur\b|euros?\b|usd\b|dollars?\b|pounds?\b))?"
MOST = re.compile(
    r"\b(?:under|below|less than|fewer than|up to|at most|max(?:imum)?(?: of)?|cheaper than|no more than"
    r"|budget(?: of| is)?)"
    rf"\s+{_N}{_UNIT}",
    re.IGNORECASE,
)
LEAST = re.compile(rf"\b(?:over|above|more than|at least|min(?:imum)?(?: of)?)\s+{_N}{_UNIT}", re.IGNORECASE)
_STARS = re.compile(r"(\d(?:\.\d)?)\s?\+?[\s-]?stars?\b|\brated\s+(\d(?:\.\d)?)", re.IGNORECASE)
_FEW_STARS = re.compile(r"\b(?:at most|or less|or fewer|or worse|under|below|up to)\b", re.IGNORECASE)
_TOP = re.compile(
    r"\b(?:top|first|best|last|worst|latest|show(?: me)?|give me|list|limit)\s+(\d{1,3})\b"
    r"(?!\s+(?:day|week|month|year))"
    r"|\b(\d{1,3})\s+(?:best|top|worst|latest|most|[a-z-]+\s)?(?:results|products|items|orders|reviews|articles|"
    r"suggestions|recommendations|ideas|options|alternatives|sellers|bestsellers)\b",
    re.IGNORECASE,
)
_SPAN = re.compile(r"\b(?:last|past|previous)\s+(?:(\d{1,3})\s+)?(day|week|month|year)s?\b", re.IGNORECASE)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_PIECES = re.compile(
    r"\b(\d{1,4})\s?(?:x\b|pieces|units|times)|\bquantity\s+(?:of\s+)?(\d{1,4})", re.IGNORECASE
)
_BARE = re.compile(r"(?<![\w.-])(\d+(?:\.\d+)?)(?![\w-])")
_MONTH = re.compile(
    r"\b(" + "|".join(name for name in calendar.month_name if name) + r")\b(?:\s+(\d{4}))?", re.IGNORECASE
)
PHRASES = (MOST, LEAST, _STARS, _SPAN, _TOP)
"""Phrases that hold a number and are no part of what is searched for."""


def number(name: str, schema: Schema, text: str, *, needed: bool) -> Any:
    """The number that the text gives for the property, within its bounds; None where it gives none."""
    text = entities.without_ids(text)
    found = _by_name(set(words.label(name).split()), text)
    if found is None:
        spoken = rf"\b{re.escape(words.label(name))}\s*(?:of|is|=|:|to)?\s*{_N}"
        found = _first(re.compile(spoken, re.IGNORECASE), text)
    if found is None and needed:
        found = _first(_BARE, text)
    return None if found is None else _bounded(found, schema)


def day(name: str, schema: Schema, text: str) -> str | None:
    """The day that the text gives for a property: an ISO date, or the first or last day of a month named."""
    parts = set(words.label(name).split())
    ends = bool(parts & {"to", "end", "until", "before", "till"})
    days = entities.DATE.findall(text)
    if days:
        return str(days[-1] if ends else days[0]) if len(days) > 1 or not ends else None
    if (match := _MONTH.search(text)) is None:
        return None
    month = [one.lower() for one in calendar.month_name].index(match[1].lower())
    shown = re.search(r"\b(20\d\d)-\d\d-\d\d\b", str(schema))
    year = int(match[2] or (shown[1] if shown else 0))
    if not year:
        return None
    return f"{year}-{month:02d}-{calendar.monthrange(year, month)[1] if ends else 1:02d}"


def _by_name(parts: set[str], text: str) -> float | None:
    if parts & {"star", "stars", "rating"}:
        few = _FEW_STARS.search(text) is not None
        return _first(_STARS, text) if few == ("max" in parts) else None
    if parts & {"days", "day", "weeks", "months", "period", "window"}:
        match = _SPAN.search(text)
        return None if match is None else float(match[1] or 1) * _DAYS[match[2].lower()]
    if parts & {"max", "maximum", "most", "below", "under", "budget", "upto"}:
        return _first(MOST, text)
    if parts & {"min", "minimum", "least", "above", "over"}:
        return _first(LEAST, text)
    if parts & {"limit", "count", "top", "n", "results", "size", "number"}:
        return _first(_TOP, text)
    if parts & {"quantity", "qty", "units", "amount"}:
        return _first(_PIECES, text)
    return None


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(next(filter(None, match.groups())).replace(",", "")) if match else None


def _bounded(value: float, schema: Schema) -> Any:
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, int | float):
        value = max(value, least)
    if isinstance(most, int | float):
        value = min(value, most)
    return int(value) if schema.get("type") == "integer" or value.is_integer() else value
