"""Parse a search for conversations into a query of `search` and marks in a text."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from agentchat.conversations.projections.search_table import (
    MAX_CHARACTERS,
    ORIGINS,
    Origin,
    mark_origin,
    split_words,
)

MAX_SNIPPET = 240
"""The characters of a text that are shown around a match."""

_BEFORE = 60
MAX_TERMS = 20
_TERM = re.compile(r'(?:(from|user|metadata):|(-?[A-Za-z_]+:)(?=[\w"])|(-))?(?:"([^"]*)"?|([^\s"]+))')
"""A field that is known, one that is not, or a dash; then a phrase or a word, such as `https://a.example`."""

Stems = Mapping[str, Sequence[str]]
"""The stems of words in the languages of `search`."""


class Snippet(msgspec.Struct, frozen=True):
    """A part of a text; `marks` are the matches in it, [start, end) in code points."""

    text: str
    marks: tuple[tuple[int, ...], ...] = ()  # two numbers each: generators of clients know no tuples


class _Term(msgspec.Struct, frozen=True):
    """Words that follow each other.

    The last may be the beginning of a word, unless the term is `exact`. A single word that is not `exact` is
    found by its stems too.
    """

    words: tuple[str, ...]
    exact: bool

    @property
    def stemmed_word(self) -> str | None:
        """The word whose stems are searched for."""
        return self.words[0] if len(self.words) == 1 and not self.exact else None

    def build_tsquery(self, stems: Stems, *, prefix: bool = True) -> str:
        """Return the term as Postgres reads a tsquery. Only words as written have the weight A.

        A stem that begins with the word is among the words of that beginning, and not read again.
        """
        if word := self.stemmed_word:
            others = [
                stem
                for stem in stems.get(word, ())
                if not (stem.startswith(word) if prefix else stem == word)
            ]
            found = [f"'{word}'{':*' if prefix else ''}", *(f"'{stem}'" for stem in others)]
            return f"({' | '.join(found)})"
        quoted = " <-> ".join(f"'{word}':A" for word in self.words)
        return f"({quoted})" if self.exact or not prefix else f"({quoted}*)"

    @property
    def pattern(self) -> str:
        joined = r"[\W_]*".join(map(re.escape, self.words))
        return rf"(?<![^\W_]){joined}" + ("(?![^\\W_])" if self.exact else r"[^\W_]*")


class WordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search as a person writes it: `late "where is" -parcel from:user` has two terms.

    All `terms` must be in one text, which is of one of `origins`. Words in quotes are whole and follow each
    other; others may be the beginnings of words. No text of the conversation may have one of the `excluded`.
    """

    terms: tuple[_Term, ...]
    excluded: tuple[_Term, ...] = ()
    origins: tuple[Origin, ...] = ()
    user_id: str | None = None
    metadata: Mapping[str, str] = {}

    @property
    def stemmed_words(self) -> list[str]:
        """The words whose stems are searched for."""
        return [word for term in (*self.terms, *self.excluded) if (word := term.stemmed_word)]

    def build_tsquery(self, stems: Stems) -> str:
        """Return the terms as Postgres reads a tsquery."""
        return " & ".join(term.build_tsquery(stems) for term in self.terms)

    def build_indexed_tsquery(self, stems: Stems, terms: int) -> str:
        """Return the tsquery by which the index is asked: the words of the longest terms, in any order.

        The index reads all that it has of each word, most of it for short beginnings. The other terms are
        looked for in the texts that it finds.
        """
        longest = sorted(self.terms, key=lambda term: -sum(map(len, term.words)))[:terms]
        return " & ".join(term.build_tsquery(stems) for term in longest).replace(" <-> ", " & ")

    def build_matching_tsquery(self, words: str) -> str:
        """Return the tsquery of texts of the origins that match `words`, the tsquery of the terms."""
        origins = " | ".join(f"'{mark_origin(origin)}'" for origin in self.origins)
        return f"({words}) & ({origins})" if origins else words

    def build_excluded_tsquery(self, stems: Stems) -> str | None:
        """Return the excluded terms as Postgres reads a tsquery; None if there are none."""
        return " | ".join(term.build_tsquery(stems, prefix=False) for term in self.excluded) or None

    def build_snippet(self, text: str, forms: Sequence[str] = ()) -> Snippet:
        """Return the part of a text that shows the match, or its beginning.

        `forms` are words of the text that have a stem of the query.
        """
        patterns = [term.pattern for term in (*self.terms, *(_Term((form,), exact=True) for form in forms))]
        if not patterns:
            return _cut_snippet(text, 0, ())
        found = [
            match.span() for match in re.finditer("|".join(patterns), text[:MAX_CHARACTERS], re.IGNORECASE)
        ]
        first = found[0][0] if found else 0
        return _cut_snippet(text, _find_word_start(text, max(0, first - _BEFORE), first), found)


def parse_search(text: str) -> WordQuery:
    """Parse what a person typed. Raises ValueError with what is wrong with it."""
    terms: list[_Term] = []
    excluded: list[_Term] = []
    origins: list[Origin] = []
    user_id, metadata = None, {}
    for match in _TERM.finditer(text.replace("\0", " ")):
        field, unknown_field, dash, quoted, word = match.groups()
        if unknown_field:
            raise ValueError(
                f"has {unknown_field[:20]}, which is not one of from:, user: and metadata:; "
                "to search for these words, put them in quotes"
            )
        value = word if quoted is None else quoted
        match field:
            case "from":
                origins.append(_parse_origin(value))
            case "user":
                user_id = value
            case "metadata":
                key, equals, given = value.partition("=")
                if not key or not equals:
                    raise ValueError("needs metadata:KEY=VALUE")
                metadata[key] = given
            case _ if words := tuple(split_words(value)):
                (excluded if dash else terms).append(_Term(words, exact=quoted is not None))
            case _:
                pass  # punctuation alone
    if len(terms) + len(excluded) > MAX_TERMS:
        raise ValueError(f"has more than {MAX_TERMS} words and phrases")
    if not terms and (excluded or origins or not (user_id or metadata)):
        raise ValueError("has no word to look for")
    return WordQuery(
        terms=tuple(terms),
        excluded=tuple(excluded),
        origins=tuple(origins),
        user_id=user_id,
        metadata=metadata,
    )


def _parse_origin(text: str) -> Origin:
    for origin in ORIGINS:
        if text == origin:
            return origin
    raise ValueError(f"has from:{text[:20]}, which must be one of {', '.join(ORIGINS)}")


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
