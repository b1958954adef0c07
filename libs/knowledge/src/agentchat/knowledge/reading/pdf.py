"""A PDF's text, page by page: each is a section, under the headings of the file's outline."""

import io
import re
from collections.abc import Iterator
from html import escape
from typing import Any

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from agentchat.knowledge.documents import plain_title
from agentchat.knowledge.reading.unfit import MOST_CHARACTERS, UnreadableFile

MOST_PAGES = 2_000
_MOST_HEADINGS = 10_000
_DEEPEST = 3
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_BETWEEN_PARAGRAPHS = re.compile(r"\n\s*\n")

Headings = dict[int, tuple[str, ...]]
"""By page, from 0 on: the headings that stand above what it begins with."""


def html_of(content: bytes) -> str:
    """Raises UnreadableFile, and whatever pypdf raises for a broken file."""
    reader = PdfReader(io.BytesIO(content), strict=False)
    if reader.is_encrypted and not _opens(reader):
        raise UnreadableFile("is encrypted: it opens with a password only")
    if len(reader.pages) > MOST_PAGES:
        raise UnreadableFile(f"has more than {MOST_PAGES:,} pages")
    title = plain_title(str(reader.metadata.title or "")) if reader.metadata else None
    try:
        pages = list(_pages(reader, _headings(reader)))
    except LimitReachedError:
        raise UnreadableFile("unpacks to more than can be read") from None
    above = f"<title>{escape(title)}</title>" if title else ""
    return "\n".join([above, *pages])


def _opens(reader: PdfReader) -> bool:
    """Many files are encrypted with an empty password, to forbid printing."""
    try:
        return bool(reader.decrypt(""))
    except (DependencyError, FileNotDecryptedError, NotImplementedError):
        return False


def _pages(reader: PdfReader, headings: Headings) -> Iterator[str]:
    """Of those with text. Raises UnreadableFile where there is none."""
    above: tuple[str, ...] = ()
    left = MOST_CHARACTERS
    for number, page in enumerate(reader.pages):
        now = headings.get(number, above)
        for level, heading in enumerate(now):
            if now[: level + 1] != above[: level + 1]:
                yield f"<h{level + 2}>{escape(heading)}</h{level + 2}>"
        above = now
        text = _HYPHENATED.sub("", page.extract_text())
        if not text.strip():
            continue
        left -= len(text)
        if left < 0:
            raise UnreadableFile(f"holds more than {MOST_CHARACTERS:,} characters")
        yield f"<h{_DEEPEST + 2}>page {number + 1}</h{_DEEPEST + 2}>"
        yield from (f"<p>{escape(paragraph)}</p>" for paragraph in _BETWEEN_PARAGRAPHS.split(text))
    if left == MOST_CHARACTERS:
        raise UnreadableFile("holds no text: its pages may be pictures")


def _headings(reader: PdfReader) -> Headings:
    """Of several headings on a page the first counts: what comes before it is little."""
    found: Headings = {}
    for count, (path, entry) in enumerate(_entries(reader.outline, ())):
        if count == _MOST_HEADINGS:
            break
        number = reader.get_destination_page_number(entry)
        if number is not None and number >= 0:
            found.setdefault(number, path)
    return found


def _entries(outline: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The outline's entries with their headings. A list holds what is beneath the entry before it."""
    path = above
    for each in outline:
        if isinstance(each, list):
            yield from _entries(each, path)
        else:
            title = plain_title(str(each.title or ""))
            path = (*above, title)[:_DEEPEST] if title else above
            yield path, each
