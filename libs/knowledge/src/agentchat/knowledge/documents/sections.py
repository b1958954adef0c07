"""Define what a document is parsed into: a title, and text under the headings above it."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import msgspec

from agentchat.contracts.text_checks import clean_text

MOST_HEADING = 120
MOST_TITLE = 200
"""Code points. A longer heading becomes a paragraph; a longer title is cut."""

_URL = 2048
_LINE_ENDS = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
# C0 and C1 controls except tab and line feed.
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_SILENT = re.compile("[\ufeff\u00ad]")
_BLANK_LINES = re.compile(r"\n{3,}")
# Short pieces, each starting at an ASCII character, with which nothing before it composes: normalizing one
# run of combining marks takes time proportional to its square.
_PIECE = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]{1,500}")


class Section(msgspec.Struct, frozen=True):
    """Text with its path: the headings above it, outermost first.

    `text` may be empty if a deeper section follows.
    """

    path: tuple[str, ...]
    text: str


class Parsed(msgspec.Struct, frozen=True):
    """A parsed document. `title` and `url` are those that the document itself states."""

    title: str | None
    url: str | None
    sections: tuple[Section, ...]


class Outline:
    """Collects sections from headings and text in reading order."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._text: list[str] = []
        self._sections: list[Section] = []

    def add_heading(self, level: int, title: str) -> None:
        """Start a section. A heading longer than MOST_HEADING becomes a paragraph."""
        title = " ".join(title.split())
        if not title:
            return
        if len(title) > MOST_HEADING:
            self.add_text(f"\n\n{title}\n\n")
            return
        self._flush()
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self._headings.append((level, title))

    def add_text(self, piece: str) -> None:
        """Add text to the current section."""
        self._text.append(piece)

    @property
    def at_line_start(self) -> bool:
        """True if the next piece of text begins a line."""
        return not self._text or self._text[-1].endswith("\n")

    def build_sections(self) -> tuple[Section, ...]:
        """Return all sections.

        A heading with nothing beneath it becomes its own text, so that no word is lost.
        """
        self._flush()
        return tuple(_keep_bare_headings(self._sections))

    def _flush(self) -> None:
        path = tuple(title for _, title in self._headings)
        text = trim_lines("".join(self._text))
        if path or text:
            self._sections.append(Section(path, text))
        self._text = []


def tidy(text: str) -> str:
    """Return text as it is stored.

    NFC, LF line ends, no control characters, U+FFFD for invalid characters.
    """
    text = _PIECE.sub(_compose, clean_text(text))
    return _SILENT.sub("", _CONTROLS.sub(" ", _LINE_ENDS.sub("\n", text)))


def trim_lines(text: str) -> str:
    """Remove blanks at the ends of lines, and more than one empty line in a row."""
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip("\n")


def clean_title(text: str) -> str | None:
    """Return a title on one line, cut to MOST_TITLE; None if nothing is left."""
    title = " ".join(tidy(text).split())
    if len(title) > MOST_TITLE:
        title = title[: MOST_TITLE - 1].rstrip() + "…"
    return title or None


def parse_web_address(text: str) -> str | None:
    """Return `text` if it is an http or https URL; only such URLs are shown to callers as links."""
    text = text.strip()
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    well_formed = parts.scheme in ("http", "https") and bool(parts.netloc)
    if not well_formed or len(text) > _URL or not text.isprintable() or " " in text:
        return None
    return text


def _compose(piece: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", piece[0])


def _keep_bare_headings(sections: Iterable[Section]) -> Iterator[Section]:
    waiting: Section | None = None
    for section in sections:
        if waiting is not None and section.path[: len(waiting.path)] != waiting.path:
            yield Section(waiting.path, waiting.path[-1])
        waiting = None if section.text else section
        if section.text:
            yield section
    if waiting is not None:
        yield Section(waiting.path, waiting.path[-1])
