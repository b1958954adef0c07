"""Parse a search for conversations into a query of `search` and marks in a text."""

import re
from collections.abc import Iterator

import msgspec

from agentchat.conversations.projections.search_table import MAX_CHARACTERS, split_words

MAX_SNIPPET = 240
"""The characters of a text that are shown around a match."""

_BEFORE = 60
_MAX_TERMS = 20
_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')


class Snippet(msgspec.Struct, frozen=True):
    """A part of a text; `marks` are the matches in it, [start, end) in code points."""

    text: str
    marks: tuple[tuple[int, ...], ...] = ()  # two numbers each: generators of clients know no tuples


class _Term(msgspec.Struct, frozen=True):
    """Words that follow each other.

    The last may be the beginning of a word, unless it is `exact`.
    """

    words: tuple[str, ...]
    exact: bool

    @property
    def tsquery(self) -> str:
        quoted = " <-> ".join(f"'{word}'" for word in self.words)
        return f"({quoted})" if self.exact else f"({quoted}:*)"

    @property
    def pattern(self) -> str:
        joined = r"[\W_]*".join(map(re.escape, self.words))
        return rf"(?<![^\W_]){joined}" + ("(?![^\\W_])" if self.exact else r"[^\W_]*")


class WordQuery(msgspec.Struct, frozen=True):
    """Terms that must all be in one text: `late "where is" ORD-10` are three.

    In quotes words are whole and follow each other; others may be the beginnings of words.
    """

    terms: tuple[_Term, ...]

    @property
    def tsquery(self) -> str | None:
        """The query as Postgres reads a tsquery; None if it has no terms."""
        return " & ".join(term.tsquery for term in self.terms) or None

    def matches(self, text: str) -> bool:
        """Return True if all terms are in the text, as `tsquery` finds them; False without terms."""
        shown = text[:MAX_CHARACTERS]
        return bool(self.terms) and all(re.search(term.pattern, shown, re.IGNORECASE) for term in self.terms)

    def build_snippet(self, text: str) -> Snippet:
        """Return the part of a text that shows the match, or its beginning."""
        if not self.terms:
            return _cut_snippet(text, 0, ())
        pattern = re.compile("|".join(term.pattern for term in self.terms), re.IGNORECASE)
        found = [match.span() for match in pattern.finditer(text[:MAX_CHARACTERS])]
        first = found[0][0] if found else 0
        return _cut_snippet(text, _find_word_start(text, max(0, first - _BEFORE), first), found)


def parse_search(text: str) -> WordQuery:
    """Parse what a person typed; punctuation alone gives no terms."""
    return WordQuery(tuple(_parse_terms(text))[:_MAX_TERMS])


def _parse_terms(text: str) -> Iterator[_Term]:
    for match in _TERM.finditer(text):
        quoted, word = match.groups()
        words = tuple(split_words(quoted or word or ""))
        if words:
            yield _Term(words, exact=quoted is not None)


def _find_word_start(text: str, start: int, end: int) -> int:
    """Return the place after the first space in text[start:end]."""
    if start == 0:
        return 0
    space = text.find(" ", start, end)
    return start if space < 0 else space + 1


def _cut_snippet(text: str, start: int, found: list[tuple[int, int]] | tuple[()]) -> Snippet:
    shown = text[start : start + MAX_SNIPPET]
    before, after = ("…" if start else ""), ("…" if start + MAX_SNIPPET < len(text) else "")
    moved = len(before) - start
    marks = tuple(
        (first + moved, min(last, start + len(shown)) + moved)
        for first, last in found
        if start <= first < start + len(shown)
    )
    return Snippet(f"{before}{shown}{after}", marks)
