"""The words of texts, and how much of them two texts share."""

import re
from collections import Counter

from experiments.comparison import counted_overlap

_WORD = re.compile(r"\w+")
_NUMBERING = re.compile(r"\[\d{1,4}\]|^\s*\d{1,3}[.)]\s", re.MULTILINE)
_MOST_WORDS = 5_000


def words(text: str) -> list[str]:
    """In small letters, the first of a long text."""
    return _WORD.findall(text.casefold())[:_MOST_WORDS]


def facts_of(text: str) -> set[str]:
    """Its words with a digit: numbers, dates, ids. Not the numbers of cited sources, nor those of a list."""
    return {each for each in words(_NUMBERING.sub(" ", text)) if any(map(str.isdigit, each))}


def overlap(one: str, other: str) -> float:
    """The share of words in common, from 0 to 1; their order does not count."""
    return counted_overlap(Counter(words(one)), Counter(words(other)))
