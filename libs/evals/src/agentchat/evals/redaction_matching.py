"""Find values in text whatever form they are written in: Unicode forms, blanks, quotes, separators of digits.

Texts are matched folded, and a text in which something is found stays folded. Pure.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TypeVar

_LEAST_LETTERS, _LEAST_DIGITS = 2, 4
"""A shorter value is replaced only at its own place: as a word of a text it says nothing."""
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_ENDS = " \"'`.,;:!?()[]{}<>\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c\u300d"
_AROUND = re.compile(rf"^[{re.escape(_ENDS)}\u2018-\u201f]+|[{re.escape(_ENDS)}\u2018-\u201f]+$")
_NUMBER = re.compile(r"[0-9][0-9 .,'\u2019()/-]*")
_SEPARATOR = "[ .,'\u2019()/-]{0,2}"
Rule = TypeVar("Rule")


def fold_text(text: str) -> str:
    """Return the text in NFKC, without invisible characters such as joiners and soft hyphens."""
    return text if text.isascii() else _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


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
