"""Find where a reply cites its sources: `[1]` cites the source with index 1."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentchat.contracts.values import Source

_MARK = re.compile(r"\[([1-9][0-9]{0,3})\]")


class Citation(NamedTuple):
    """A source, and the place of its mark in the text: code points, `start` within and `end` after it."""

    source: Source
    start: int = 0
    end: int = 0


def find_marks(text: str, sources: Sequence[Source]) -> Iterator[Citation]:
    """Yield each mark in the text that names one of the sources, in order."""
    by_index = {source.index: source for source in sources}
    for mark in _MARK.finditer(text):
        if (source := by_index.get(int(mark[1]))) is not None:
            yield Citation(source, *mark.span())


def list_citations(text: str, sources: Sequence[Source]) -> tuple[Citation, ...]:
    """Return all marks in the text, then the uncited sources at place 0 to 0."""
    found = tuple(find_marks(text, sources))
    cited = {citation.source.index for citation in found}
    return (*found, *(Citation(source) for source in sources if source.index not in cited))
