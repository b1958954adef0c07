"""A tool's input, filled from the message and from what was written before, by the tool's schema."""

import calendar
import re
from typing import Any, NamedTuple

from model_demo.shop import json_schemas, words
from model_demo.shop.memory import Memory
from model_demo.wire.requests import ClientTool, Schema

_MOST_CALLS, _MOST_HEADLINE = 6, 80
_LESS = r"\b(?:under|below|less than|fewer than|up to|at most|max(?:imum)?|cheaper than|budget of)\s+"
_NUMBERS = {
    "max_price": rf"{_LESS}[$€£]?\s?(\d[\d,.]*)(?:\s?(?:eur|euros?|dollars?)\b)?",
    "below": rf"{_LESS}(\d+)",
    "min_rating": r"\b(?:at least|rated|over|above)\s+(\d(?:\.\d)?)(?:\s?stars?)?\b|\b(\d)\+ stars\b",
    "max_stars": rf"{_LESS}(\d)\s?stars?\b|\b(\d)\s?stars? or (?:less|fewer|worse)\b",
    "limit": r"\b(?:top|first|best|last|worst|latest|recommend|suggest|show(?: me)?)\s+(\d{1,2})\b"
    r"|\b(\d{1,2})\s+(?:best|latest|products|orders|reviews|ideas)\b",
}
"""How the number of a property is written."""
_ADDRESS = re.compile(
    r"(?P<street>\b[A-Z][a-z]+(?: [^\s,]+){0,3} \d+\w?),? (?P<postal_code>\d{4,6})"
    r" (?P<city>[A-Z][^\s,]+)(?:,? (?P<country>[A-Z]{2})\b)?"
)
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_BECAUSE = re.compile(r"\b(?:because(?: of)?|since|reason:?)\s+([^\n]{2,200})", re.IGNORECASE)
_THIS_YEAR = 2026
"""The shop's, and what a month without a year is meant in."""
_MONTHS = "|".join(calendar.month_name[1:])
_MONTH = re.compile(rf"\b({_MONTHS})\b(?: (\d{{4}}))?", re.IGNORECASE)
_PREFIX = re.compile(r"\b([A-Z]{2,6})-")
_ASKING = words.STOP | words.word_set(
    "show find search look looking want need buy get list give tell recommend suggest check see help browse "
    "got sell products product items item stuff information details more where kind cheapest cheap best good "
    "great shop store when should customer named called available order orders"
)
"""Words that ask for a search, and are not what is searched for."""
_MEANT = {"cheap": "price low", "cheapest": "price low", "urgent": "high", "slowest": "worst"}
"""Word to those of a choice that a property may offer."""


class Filled(NamedTuple):
    """`inputs`: one for each call to make. `missing`: required properties for which nothing was written."""

    inputs: list[dict[str, Any]]
    missing: list[str]


def fill(tool: ClientTool, part: str, message: str, known: Memory) -> Filled:
    """Fill the input from the part of the message that asks for the tool, the complete message, and memory.

    Where several ids are named and the tool takes one, each has a call of its own.
    """
    schema = json_schemas.simple(tool.input_schema, tool.input_schema)
    written = _Message(part, message, known)
    found = {
        name: written.value(name, json_schemas.simple(one, tool.input_schema), name in schema["required"])
        for name, one in sorted(schema["properties"].items(), key=lambda named: named[0] == "query")
    }
    made = {name: found[name] for name in schema["properties"] if found[name] is not None}
    missing = [name for name in schema["required"] if name not in made]
    for name, several in written.several.items():
        return Filled([{**made, name: one} for one in several[:_MOST_CALLS]], missing)
    return Filled([made], missing)


class _Message:
    """What was written, property by property. A search leaves out the words of choices taken before."""

    def __init__(self, part: str, message: str, known: Memory) -> None:
        self._part = part
        self._message = message
        self._known = known
        self._taken: set[str] = set()
        self.several: dict[str, list[str]] = {}

    def value(self, name: str, schema: Schema, needed: bool) -> Any:
        if options := json_schemas.choices(schema):
            return self._choice(schema, options, needed)
        shown = str([schema.get("pattern"), schema.get("examples"), schema.get("items")])
        if match := _PREFIX.search(shown):
            return self._id(name, match[1], schema, needed)
        match schema["type"]:
            case "integer" | "number":
                return self._number(name)
            case "boolean":
                stems = set(words.stems(name.removesuffix("_only")))
                self._taken |= stems
                return True if stems and stems <= set(words.stems(self._part)) else None
        return self._day(name) if schema.get("format") == "date" else self._text(name, schema, needed)

    def _choice(self, schema: Schema, options: list[Any], needed: bool) -> Any:
        """The longest choice whose words are written."""
        stems = set(words.stems(self._part))
        stems |= {stem for word in stems & _MEANT.keys() for stem in words.stems(_MEANT[word])}
        chosen = [one for one in options if stems.issuperset(words.stems(str(one)))]
        if chosen:
            self._taken.update(stem for one in chosen for stem in words.stems(str(one)))
            return max(chosen, key=lambda one: len(str(one)))
        return schema.get("default", "other" if "other" in options else None) if needed else None

    def _id(self, name: str, prefix: str, schema: Schema, needed: bool) -> Any:
        """The ids of the part; else one of the message, of this turn's results, or spoken of last."""
        texts = [words.ids(self._part), words.ids(self._message)[:1], self._known.ids if needed else []]
        of_kind = [[one for one in entities if one.startswith(f"{prefix}-")] for entities in texts]
        found = of_kind[0] or of_kind[1] or of_kind[2][:1]
        if schema["type"] == "array":
            return found if len(found) >= schema.get("minItems", 1) else None
        if len(found) > 1:
            self.several[name] = found
        return found[0] if found else None

    def _number(self, name: str) -> float | int | None:
        match = re.search(_NUMBERS.get(name, r"(?!)"), words.ID.sub(" ", self._part), re.IGNORECASE)
        if match is None:
            return None
        value = float(next(filter(None, match.groups())).rstrip(".").replace(",", ""))
        return int(value) if value.is_integer() else value

    def _day(self, name: str) -> str | None:
        """An ISO date, or the first or last day of a month that is named."""
        ends = name.endswith("_to")
        days: list[str] = re.findall(r"\b\d{4}-\d{2}-\d{2}\b", self._part)
        if days:
            return days[-1 if ends else 0] if len(days) > 1 or not ends else None
        match = _MONTH.search(self._part)
        if match is None or (ends and re.search(r"\bsince\b", self._part, re.IGNORECASE)):
            return None
        month, year = [*calendar.month_name].index(match[1].capitalize()), int(match[2] or _THIS_YEAR)
        return f"{year}-{month:02d}-{calendar.monthrange(year, month)[1] if ends else 1:02d}"

    def _text(self, name: str, schema: Schema, needed: bool) -> str | None:
        found = self._by_name(name, needed)
        return found[: schema.get("maxLength")].rstrip() or None if found else None

    def _by_name(self, name: str, needed: bool) -> str | None:
        _, _, rest = self._message.partition(": ")
        text = words.quoted(self._part) or (rest if " " in rest.strip() else self._message).strip()
        because = _BECAUSE.search(self._part)
        address = _ADDRESS.search(self._message)
        match name:
            case "query":
                return self._query(needed)
            case "reason":
                return because[1].strip(" .!") if because else None
            case "message" | "description" | "text":
                return text
            case "subject" | "title":
                return re.split(r"[.!?\n]", text, maxsplit=1)[0][:_MOST_HEADLINE]
        return address.groupdict().get(name) if address else None

    def _query(self, needed: bool) -> str | None:
        """A mail address, what is quoted, else the words that say what."""
        exact: list[str] = [
            *_MAIL.findall(self._part),
            *filter(None, [words.quoted(self._part)]),
            *words.ids(self._part),
        ]
        if exact:
            return exact[0]
        left = words.ID.sub(" ", self._part)
        for pattern in _NUMBERS.values():
            left = re.sub(pattern, " ", left, flags=re.IGNORECASE)
        terms = [word for word in re.findall(r"[^\W_][\w'-]*", left) if word.lower() not in _ASKING]
        return " ".join(word for word in terms if needed or self._taken.isdisjoint(words.stems(word))) or None
