"""Convert a PDF page by page: each page is a section under the headings of the file's outline."""

import io
import re
from collections.abc import Iterator
from html import escape
from typing import Any

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from agentchat.knowledge.documents import clean_title
from agentchat.knowledge.reading.file_errors import MOST_CHARACTERS, UnreadableFile

MOST_PAGES = 2_000
_MOST_HEADINGS = 10_000
_DEEPEST = 3
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_BETWEEN_PARAGRAPHS = re.compile(r"\n\s*\n")

Headings = dict[int, tuple[str, ...]]
"""By page, counted from 0: the headings above the page's beginning."""


def convert_to_html(content: bytes) -> str:
    """Raises UnreadableFile, and whatever pypdf raises for a broken file."""
    reader = PdfReader(io.BytesIO(content), strict=False)
    if reader.is_encrypted and not _can_decrypt(reader):
        raise UnreadableFile("is encrypted: it opens with a password only")
    if len(reader.pages) > MOST_PAGES:
        raise UnreadableFile(f"has more than {MOST_PAGES:,} pages")
    title = clean_title(str(reader.metadata.title or "")) if reader.metadata else None
    try:
        pages = list(_render_pages(reader, _find_headings(reader)))
    except LimitReachedError:
        raise UnreadableFile("unpacks to more than can be read") from None
    above = f"<title>{escape(title)}</title>" if title else ""
    return "\n".join([above, *pages])


def _can_decrypt(reader: PdfReader) -> bool:
    """Return True if the empty password opens the file: many are encrypted only to forbid printing."""
    try:
        return bool(reader.decrypt(""))
    except (DependencyError, FileNotDecryptedError, NotImplementedError):
        return False


def _render_pages(reader: PdfReader, headings: Headings) -> Iterator[str]:
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


def _find_headings(reader: PdfReader) -> Headings:
    """Of several headings on a page the first counts: what comes before it is little."""
    found: Headings = {}
    for count, (path, entry) in enumerate(_iterate_outline(reader.outline, ())):
        if count == _MOST_HEADINGS:
            break
        number = reader.get_destination_page_number(entry)
        if number is not None and number >= 0:
            found.setdefault(number, path)
    return found


def _iterate_outline(outline: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the outline's entries with their headings. A list holds the entries beneath the one before it."""
    path = above
    for each in outline:
        if isinstance(each, list):
            yield from _iterate_outline(each, path)
        else:
            title = clean_title(str(each.title or ""))
            path = (*above, title)[:_DEEPEST] if title else above
            yield path, each
