"""What a document is parsed into: its title, and its text under the headings that it stands under."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import msgspec

from agentchat.contracts.text import clean_text

MOST_HEADING = 120
MOST_TITLE = 200
"""Code points. A longer heading is a paragraph; a longer title is cut."""

_URL = 2048
_LINE_ENDS = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
# C0 and C1 controls but tab and line feed; the byte order mark and the soft hyphen say nothing.
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_SILENT = re.compile("[\ufeff\u00ad]")
_BLANK_LINES = re.compile(r"\n{3,}")
# Short pieces, each from an ASCII character on (nothing before that composes with it): the work of
# normalizing one run of combining marks grows with its square.
_PIECE = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]{1,500}")


class Section(msgspec.Struct, frozen=True):
    """`path`: the headings above the text, outermost first. `text` may be empty, where one follows deeper."""

    path: tuple[str, ...]
    text: str


class Parsed(msgspec.Struct, frozen=True):
    """`title` and `url` as the document itself gives them, if it does."""

    title: str | None
    url: str | None
    sections: tuple[Section, ...]


class Outline:
    """Collects sections while headings and text come by, in reading order."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._text: list[str] = []
        self._sections: list[Section] = []

    def heading(self, level: int, title: str) -> None:
        title = " ".join(title.split())
        if not title:
            return
        if len(title) > MOST_HEADING:
            self.text(f"\n\n{title}\n\n")
            return
        self._flush()
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self._headings.append((level, title))

    def text(self, piece: str) -> None:
        self._text.append(piece)

    @property
    def at_line_start(self) -> bool:
        """Whether the next piece of text begins a line."""
        return not self._text or self._text[-1].endswith("\n")

    def sections(self) -> tuple[Section, ...]:
        """All of them. A heading with nothing beneath it is its own text, so that no word is lost."""
        self._flush()
        return tuple(_with_bare_headings(self._sections))

    def _flush(self) -> None:
        path = tuple(title for _, title in self._headings)
        text = trimmed("".join(self._text))
        if path or text:
            self._sections.append(Section(path, text))
        self._text = []


def tidy(text: str) -> str:
    """Text as it is kept: NFC, lines ended by LF, no control characters, U+FFFD for what cannot be stored."""
    text = _PIECE.sub(_composed, clean_text(text))
    return _SILENT.sub("", _CONTROLS.sub(" ", _LINE_ENDS.sub("\n", text)))


def trimmed(text: str) -> str:
    """Without blanks at the ends of lines, and with one empty line at most between two."""
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip("\n")


def plain_title(text: str) -> str | None:
    """A title on one line, cut to its bound; None where nothing is left."""
    title = " ".join(tidy(text).split())
    if len(title) > MOST_TITLE:
        title = title[: MOST_TITLE - 1].rstrip() + "…"
    return title or None


def web_address(text: str) -> str | None:
    """`text` if it is an http or https address, which alone may be shown to callers as a link."""
    text = text.strip()
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    well_formed = parts.scheme in ("http", "https") and bool(parts.netloc)
    if not well_formed or len(text) > _URL or not text.isprintable() or " " in text:
        return None
    return text


def _composed(piece: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", piece[0])


def _with_bare_headings(sections: Iterable[Section]) -> Iterator[Section]:
    waiting: Section | None = None
    for section in sections:
        if waiting is not None and section.path[: len(waiting.path)] != waiting.path:
            yield Section(waiting.path, waiting.path[-1])
        waiting = None if section.text else section
        if section.text:
            yield section
    if waiting is not None:
        yield Section(waiting.path, waiting.path[-1])
