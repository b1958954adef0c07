"""Cut sections into chunks: the passages that are searched, quoted and given to the model.

A chunk never crosses a heading. Within a section it ends at a paragraph, a sentence, a line or a word;
anywhere if there is no such place.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from agentchat.knowledge.documents.sections import Section

MOST = 1200
"""Code points of a chunk's text, at most."""
OVERLAP = 160
"""Code points, at most, that a chunk repeats of the one before: its last sentence or its last words."""
ARROW = " \u203a "

_PARAGRAPH = re.compile(r"\n\n")
_LINE = re.compile(r"\n")
_SENTENCE = re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019)\\]]?\\s|(?<=[\u3002\uff01\uff1f])")
_WORD = re.compile(r"\s")


class Chunk(msgspec.Struct, frozen=True):
    """A passage.

    `position` counts from 1 within the document; `title` is the document's with the headings above.
    """

    position: int
    title: str
    text: str


def cut_chunks(title: str, sections: Sequence[Section]) -> list[Chunk]:
    """Return the document's chunks in reading order, always the same for the same document.

    Every word of the sections is in a chunk's text, and every heading above it in its title.
    """
    pieces = [
        (_build_title(title, section.path), piece) for section in sections for piece in split(section.text)
    ]
    return [Chunk(position, head, text) for position, (head, text) in enumerate(pieces, start=1)]


def split(text: str) -> Iterator[str]:
    """Yield pieces of at most MOST code points, none blank. A text that fits is one piece."""
    start, text = 0, text.rstrip()
    while True:
        start = _skip_blanks(text, start)
        if len(text) - start <= MOST:
            break
        end, pause = _find_end(text, start)
        yield text[start:end].rstrip()
        start = end if pause is _PARAGRAPH else _find_overlap(text, end)
    if start < len(text):
        yield text[start:]


def _find_end(text: str, start: int) -> tuple[int, "re.Pattern[str] | None"]:
    """Return where to cut and at what pause; the remaining pieces should be about equally long."""
    left = len(text) - start
    target = start + -(-left // -(-left // MOST))
    lowest, highest = start + MOST // 3, start + MOST
    for pause in (_PARAGRAPH, _SENTENCE, _LINE, _WORD):
        ends = [found.end() for found in pause.finditer(text, lowest, highest) if found.end() > lowest]
        if ends:
            return min(ends, key=lambda end: abs(end - target)), pause
    return highest, None


def _skip_blanks(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _find_overlap(text: str, end: int) -> int:
    """Return where the next piece begins: at the last sentence before `end` if that is short, else a word."""
    for pause in (_SENTENCE, _WORD):
        begins = [found.end() for found in pause.finditer(text, end - OVERLAP, end) if found.end() < end]
        if begins:
            return begins[0] if pause is _WORD else begins[-1]
    return end


def _build_title(title: str, path: tuple[str, ...]) -> str:
    below = path[1:] if path and path[0] == title else path
    return ARROW.join((title, *below))
