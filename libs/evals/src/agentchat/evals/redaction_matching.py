"""Find values in text whatever form they are written in: Unicode forms, blanks, quotes, separators of digits.

Texts are matched as they are and folded: NFKC, without invisible characters, each run of blanks one space.
Places in a folded text are translated back, so that the original text is what is replaced. Pure.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

_LEAST_LETTERS, _LEAST_DIGITS = 2, 4
"""A shorter value is replaced only at its own place: as a word of a text it says nothing."""
_MOST_MARKS = 30
"""Combining marks of one character; normalizing more takes time proportional to the square."""
_IS_FOLDED = re.compile(r"(?:[!-~]+(?: [!-~]+)*)?")
_ENDS = " \"'`.,;:!?()[]{}<>\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c\u300d"
_AROUND = re.compile(rf"^[{re.escape(_ENDS)}\u2018-\u201f]+|[{re.escape(_ENDS)}\u2018-\u201f]+$")
_NUMBER = re.compile(r"[+-]?[0-9][0-9 .,'\u2019()/-]*")
_DECIMAL = re.compile(r"[+-]?([0-9]+)\.([0-9]+)")
Rule = TypeVar("Rule")
_SEPARATOR = "[ .,'\u2019()/-]{0,2}"


class FoldedText(msgspec.Struct, frozen=True):
    """A text with the places that its characters had: `starts` and `ends`, or None if they are the same."""

    text: str
    starts: list[int] | None = None
    ends: list[int] | None = None

    def find_spans(self, pattern: "re.Pattern[str]") -> Iterator[tuple[int, int]]:
        """Yield where the pattern matches, as places in the original text."""
        for match in pattern.finditer(self.text):
            if match.end() > match.start():
                start, end = match.span()
                if self.starts is not None and self.ends is not None:
                    start, end = self.starts[start], self.ends[end - 1]
                yield start, end


def fold_text(text: str) -> FoldedText:
    """Return the text in NFKC, without invisible characters, with single spaces for blanks."""
    if _IS_FOLDED.fullmatch(text):
        return FoldedText(text)
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    while at < len(text):
        end = _find_character_end(text, at)
        folded = unicodedata.normalize("NFKC", text[at:end])
        if folded.isspace():
            if pieces and pieces[-1] == " ":
                ends[-1] = end
                folded = ""
            else:
                folded = " "
        elif unicodedata.category(text[at]) in ("Cf", "Mn", "Cc"):
            folded = ""  # joiners, soft hyphens, variation selectors
        for letter in folded:
            pieces.append(letter)
            starts.append(at)
            ends.append(end)
        at = end
    return FoldedText("".join(pieces), starts, ends)


def strip_value(value: str) -> str:
    """Return the folded value without the quotes, brackets and marks around it."""
    folded = fold_text(value).text.strip()
    return _AROUND.sub("", folded) or folded


def compile_value(value: str) -> "re.Pattern[str] | None":
    """Return a pattern that finds the value in a folded text; None if it is too short for that."""
    core = strip_value(value)
    is_word = any(letter.isalpha() for letter in core)
    if len(core) < (_LEAST_LETTERS if is_word else _LEAST_DIGITS):
        return None
    if _NUMBER.fullmatch(core) and sum(map(str.isdigit, core)) >= _LEAST_DIGITS:
        return re.compile(_match_number(core))
    forms = "|".join(sorted(map(re.escape, {core, core.upper(), core.casefold()}), key=len, reverse=True))
    before = "(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", core) else ""
    after = "(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", core) else ""
    return re.compile(f"{before}(?:{forms}){after}", re.IGNORECASE)


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


def _find_character_end(text: str, at: int) -> int:
    """Return where a character ends, with its combining marks; a syllable of Hangul letters is one."""
    end = at + 1
    is_hangul = "\u1100" <= text[at] <= "\u11ff"
    while end < len(text) and end - at < _MOST_MARKS:
        following = text[end]
        if not unicodedata.combining(following) and not (is_hangul and "\u1160" <= following <= "\u11ff"):
            break
        end += 1
    return end


def _match_number(core: str) -> str:
    """Match the number with other separators, a decimal part of zeros, or an exponent."""
    found = _DECIMAL.fullmatch(core)
    digits = found[1] + found[2].rstrip("0") if found else re.sub("[^0-9]", "", core)
    places = len(found[1]) if found else len(digits)
    forms = [_SEPARATOR.join(digits)]
    if short := digits.rstrip("0"):
        forms.append(rf"{_SEPARATOR.join(short)}[.0]*[eE]\+?0*{places - 1}")
    return f"(?<![0-9])(?:{'|'.join(reversed(forms))})(?![0-9])"
