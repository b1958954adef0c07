"""Convert a PDF page by page: each page is a section under the headings of the file's outline."""

import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from itertools import islice
from typing import Any, TypeVar

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from agentchat.knowledge.documents import clean_title
from agentchat.knowledge.reading.file_errors import MOST_CHARACTERS, ConvertedFile, UnreadableFile

T = TypeVar("T")

MOST_PAGES = 2_000
_MOST_HEADINGS = 10_000
_DEEPEST = 3
_NAMED_PAGES = 20
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_BETWEEN_PARAGRAPHS = re.compile(r"\n\s*\n")

Headings = dict[int, tuple[str, ...]]
"""The headings above the beginning of each page, counted from 0."""


def convert_to_html(content: bytes) -> ConvertedFile:
    """Convert the pages that can be read, under the headings that can; warnings name the other pages.

    Raises UnreadableFile, and whatever pypdf raises if the file as a whole is broken.
    """
    reader = PdfReader(io.BytesIO(content), strict=False)
    if reader.is_encrypted and not _can_decrypt(reader):
        raise UnreadableFile("is encrypted: it opens with a password only")
    if len(reader.pages) > MOST_PAGES:
        raise UnreadableFile(f"has more than {MOST_PAGES:,} pages")
    warnings: list[str] = []
    title, _ = _try(lambda: clean_title(str(reader.metadata.title or "")) if reader.metadata else None)
    pages = list(_render_pages(reader, _find_headings(reader), warnings))
    above = f"<title>{escape(title)}</title>" if title else ""
    return ConvertedFile("\n".join([above, *pages]), tuple(warnings))


def _try(read: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Return what is read, or the error: pypdf raises anything for broken bytes."""
    try:
        return read(), None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        return None, error


def _can_decrypt(reader: PdfReader) -> bool:
    """Return True if the empty password opens the file: many are encrypted only to forbid printing."""
    try:
        return bool(reader.decrypt(""))
    except (DependencyError, FileNotDecryptedError, NotImplementedError):
        return False


def _render_pages(reader: PdfReader, headings: Headings, warnings: list[str]) -> Iterator[str]:
    """Yield the pages with text. Raises UnreadableFile if there is none."""
    above: tuple[str, ...] = ()
    left = MOST_CHARACTERS
    unread: list[int] = []
    is_swollen = False
    for number in range(len(reader.pages)):
        now = headings.get(number, above)
        for level, heading in enumerate(now):
            if now[: level + 1] != above[: level + 1]:
                yield f"<h{level + 2}>{escape(heading)}</h{level + 2}>"
        above = now
        raw, failed = _try(lambda number=number: reader.pages[number].extract_text())  # type: ignore[misc]
        if failed is not None:
            unread.append(number + 1)
            is_swollen = is_swollen or isinstance(failed, LimitReachedError)
        text = _HYPHENATED.sub("", raw or "")
        if not text.strip():
            continue
        left -= len(text)
        if left < 0:
            raise UnreadableFile(f"holds more than {MOST_CHARACTERS:,} characters")
        yield f"<h{_DEEPEST + 2}>page {number + 1}</h{_DEEPEST + 2}>"
        yield from (f"<p>{escape(paragraph)}</p>" for paragraph in _BETWEEN_PARAGRAPHS.split(text))
    if left == MOST_CHARACTERS:
        raise UnreadableFile(_explain_no_text(unread, is_swollen=is_swollen))
    if unread:
        warnings.append(_name_pages(unread))


def _explain_no_text(unread: list[int], *, is_swollen: bool) -> str:
    if is_swollen:
        return "unpacks to more than can be read"
    return "has no page that can be read" if unread else "holds no text: its pages may be pictures"


def _name_pages(unread: list[int]) -> str:
    if len(unread) == 1:
        return f"page {unread[0]} cannot be read"
    named = ", ".join(map(str, unread[:_NAMED_PAGES]))
    more = f" and {len(unread) - _NAMED_PAGES} more" if len(unread) > _NAMED_PAGES else ""
    return f"pages {named}{more} cannot be read"


def _find_headings(reader: PdfReader) -> Headings:
    """Return the headings by page, as far as they can be read; the first one of a page counts."""
    found: Headings = {}
    entries, _ = _try(lambda: list(islice(_iterate_outline(reader.outline, ()), _MOST_HEADINGS)))
    for path, entry in entries or ():
        number, _ = _try(partial(reader.get_destination_page_number, entry))
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
            title = clean_title(str(getattr(each, "title", "") or ""))
            path = (*above, title)[:_DEEPEST] if title else above
            yield path, each
