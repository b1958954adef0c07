"""Texts of one case with placeholders in the places of values: the same one for the same value."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from evals.redaction_rules import PlaceRule, ReadyRule, ReadyRules

_LEAST_LETTERS = 2
_LEAST_DIGITS = 4
"""A shorter value of a field is replaced at its place alone: as a word of a text it says nothing."""


class _Span(NamedTuple):
    start: int
    end: int
    rule: ReadyRule


class RedactedText:
    """A text, and where its parts are once it was redacted."""

    def __init__(self, original: str, replaced: Sequence[tuple[int, int, str]]) -> None:
        """`replaced`: [start, end) and what is there instead, in order, none in another."""
        self.original = original
        self._replaced = replaced
        pieces, last = [], 0
        for start, end, placeholder in replaced:
            pieces += [original[last:start], placeholder]
            last = end
        self.text = "".join([*pieces, original[last:]])

    def place_of(self, position: int, *, before: bool = False) -> int:
        """Where a place of the original is in the text. One within a value is after its placeholder, or
        `before` it.
        """
        moved = 0
        for start, end, placeholder in self._replaced:
            if end <= position:
                moved += len(placeholder) - (end - start)
            elif start < position:
                return start + moved + (0 if before else len(placeholder))
            else:
                break
        return position + moved

    def part(self, start: int, end: int) -> str:
        """Of the original's [start, end): parts that follow each other make up the text. A placeholder is
        in the part in which its value begins.
        """
        return self.text[self.place_of(start) : self.place_of(end)]

    def excerpt(self, start: int, end: int) -> str:
        """Of the original's [start, end), with the placeholders of values that are only half in it."""
        return self.text[self.place_of(start, before=True) : self.place_of(end)]


class Placeholders:
    """What stands in one case for what. `struck` are the labels of the rules that found something."""

    def __init__(self, rules: ReadyRules) -> None:
        self.struck: set[str] = set()
        self._rules = rules
        self._by_value: dict[str, str] = {}
        self._used: Counter[str] = Counter()
        self._learned: dict[str, tuple[re.Pattern[str], PlaceRule]] = {}
        self._texts: dict[str, RedactedText] = {}

    def learn(self, value: str, rule: PlaceRule) -> None:
        """A field has this value: it is replaced in every text from now on, upper case or lower."""
        is_word = any(letter.isalpha() for letter in value)
        if len(value.strip()) >= (_LEAST_LETTERS if is_word else _LEAST_DIGITS):
            self._learned.setdefault(value.strip().lower(), (_word(value.strip()), rule))

    def of(self, value: str, rule: ReadyRule) -> str:
        """The placeholder of a value that the rule found."""
        self.struck.add(rule.label)
        learned = value.strip().lower()
        key = learned if learned in self._learned else value
        if key not in self._by_value:
            self._used[rule.template] += 1
            self._by_value[key] = rule.template.replace("{n}", str(self._used[rule.template]))
        return self._by_value[key]

    def text(self, text: str) -> str:
        return self.redacted(text).text

    def redacted(self, text: str) -> RedactedText:
        if text not in self._texts:
            self._texts[text] = self._replaced(text, self._spans(text))
        return self._texts[text]

    def joined(self, *divisions: Sequence[str]) -> RedactedText:
        """Of a text that is stored in parts too, by each of these divisions: redacted where the text is, and
        where one of its parts is.
        """
        text = "".join(divisions[0])
        spans = [*self._spans(text)]
        for parts in divisions:
            places = itertools.accumulate(map(len, parts), initial=0)
            for place, part in zip(places, parts, strict=False):
                spans += (_Span(place + start, place + end, rule) for start, end, rule in self._spans(part))
        return self._replaced(text, spans)

    def _spans(self, text: str) -> Iterator[_Span]:
        for rule in self._rules.finders:
            yield from (_Span(start, end, rule) for start, end in rule.find(text) if start < end)
        folded = text.lower()
        for value, (pattern, place) in self._learned.items():
            if value in folded:
                yield from (_Span(*match.span(), place) for match in pattern.finditer(text))

    def _replaced(self, text: str, spans: Iterable[_Span]) -> RedactedText:
        return RedactedText(
            text,
            [(start, end, self.of(text[start:end], rule)) for start, end, rule in self._merged(spans)],
        )

    def _merged(self, spans: Iterable[_Span]) -> Iterator[_Span]:
        """Those that overlap are one, of the rule that comes first: no half of a value is left."""
        current: _Span | None = None
        for span in sorted(spans, key=lambda each: (each.start, each.rule.order)):
            self.struck.add(span.rule.label)
            if current is None or span.start >= current.end:
                if current is not None:
                    yield current
                current = span
            else:
                rule = min(current.rule, span.rule, key=lambda each: each.order)
                current = _Span(current.start, max(current.end, span.end), rule)
        if current is not None:
            yield current


def _word(value: str) -> re.Pattern[str]:
    """The value where it is no part of a longer word of Latin letters or digits."""
    before = r"(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", value) else ""
    after = r"(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", value) else ""
    return re.compile(f"{before}{re.escape(value)}{after}", re.IGNORECASE)
