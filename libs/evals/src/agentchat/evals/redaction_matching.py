"""Find values in text whatever form they are written in: Unicode forms, dashes, blanks, quotes, separators.

Texts are matched folded, and a text in which something is found stays folded. Pure.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TypeVar

_LEAST_LETTERS, _LEAST_DIGITS = 2, 4
"""A shorter value is replaced only at its own place: as a word of a text it says nothing."""
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_ALIKE = str.maketrans({"\u2212": "-", "\u2018": "'", "\u2019": "'", "\u02bc": "'"}) | dict.fromkeys(
    range(0x2010, 0x2016), "-"
)
"""Dashes and apostrophes that people and models write for those of a keyboard."""
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
"""A character in JSON that is a part of a text."""
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_ENDS = " \"'`.,;:!?()[]{}<>\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c\u300d"
_AROUND = re.compile(rf"^[{re.escape(_ENDS)}\u2018-\u201f]+|[{re.escape(_ENDS)}\u2018-\u201f]+$")
_NUMBER = re.compile(r"[+-]?[0-9][0-9 .,'()/-]*")
_SEPARATOR = "[ .,'()/-]{0,2}"
Rule = TypeVar("Rule")


def fold_text(text: str) -> str:
    """Return the text in NFKC with plain dashes, apostrophes and digits, and without invisible characters."""
    if "\\u" in text:
        text = _ESCAPE.sub(_decode_escape, text)
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_ALIKE)
    return _OTHER_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), plain)


def fold_with_places(text: str, places: Iterable[int]) -> tuple[str, dict[int, int]]:
    """Fold a text, and return where each of the places is in the folded text."""
    pieces, moved, last, length = [], {}, 0, 0
    for place in sorted({*places, len(text)}):
        pieces.append(fold_text(text[last:place]))
        length += len(pieces[-1])
        moved[place], last = length, place
    return "".join(pieces), moved


def strip_value(value: str) -> str:
    """Return the folded value with single blanks, without the quotes, brackets and marks around it."""
    folded = " ".join(fold_text(value).split())
    return _AROUND.sub("", folded) or folded


def compile_value(value: str) -> "re.Pattern[str] | None":
    """Return a pattern that finds the value in a folded text; None if it is too short for that."""
    core = strip_value(value)
    is_word = any(letter.isalpha() for letter in core)
    if len(core) < (_LEAST_LETTERS if is_word else _LEAST_DIGITS):
        return None
    digits = re.sub("[^0-9]", "", core)
    if _NUMBER.fullmatch(core) and len(digits) >= _LEAST_DIGITS:
        return re.compile(f"(?<![0-9]){_SEPARATOR.join(digits)}(?![0-9])")
    forms = "|".join(
        r"\s+".join(map(re.escape, form.split())) for form in (core, core.upper(), core.casefold())
    )
    before = "(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", core) else ""
    after = "(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", core) else ""
    return re.compile(f"{before}(?:{forms}){after}", re.IGNORECASE)


def find_spans(
    text: str, patterns: Iterable[tuple[re.Pattern[str], Rule]]
) -> Iterator[tuple[int, int, int, Rule]]:
    """Find the places of patterns: start, end, number and rule of the pattern."""
    for number, (pattern, rule) in enumerate(patterns):
        for match in pattern.finditer(text):
            if match.end() > match.start():
                yield match.start(), match.end(), number, rule


def merge_spans(
    spans: Iterable[tuple[int, int, int, Rule]],
) -> Iterator[tuple[int, int, Rule]]:
    """Join places that overlap, so that no half of a value is left; the earliest rule names them."""
    current: tuple[int, int, int, Rule] | None = None
    for span in sorted(spans, key=lambda each: each[:3]):
        if current is None or span[0] >= current[1]:
            if current is not None:
                yield current[0], current[1], current[3]
            current = span
        else:
            first = min(current, span, key=lambda each: each[2])
            current = (current[0], max(current[1], span[1]), *first[2:])
    if current is not None:
        yield current[0], current[1], current[3]


def _decode_escape(escape: re.Match[str]) -> str:
    """Return the character of an escape, except where JSON would have another meaning without it."""
    character = chr(int(escape[1], 16))
    is_kept = character < " " or character in '"\\' or "\ud800" <= character <= "\udfff"
    return escape[0] if is_kept else character
