"""Parse HTML: what a reader sees, under its headings, without scripts, styles and navigation (by lxml)."""

import re
from collections.abc import Iterable

from lxml import etree

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.text_checks import clean_text
from agentchat.knowledge.documents.sections import (
    Outline,
    Parsed,
    Section,
    clean_title,
    parse_web_address,
    tidy,
)

_HIDDEN = (
    *("script", "style", "noscript", "template", "iframe", "object", "svg", "math"),
    *("nav", "select", "button", "dialog"),
)
"""Elements that are removed; a button that is a heading or a question stays (`_keep_button_texts`)."""
_BLOCK_NAMES = """
address article aside blockquote body caption dd details div dl dt fieldset figcaption figure footer form
header hr legend main ol p pre section summary table tbody tfoot thead ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_LINES = ("br", "tr")
_BLOCKS_OF_LAYOUT = ("table", "pre", *(f"h{level}" for level in range(1, 7)))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}


def parse_html(text: str) -> Parsed:
    """Parse a page. The title is the first h1 that is kept, else the page's; the url is its canonical link.

    If the page marks its main content (`main`), only that is kept.

    Raises:
        Invalid: Elements are nested deeper than lxml parses, which is 256.
    """
    page = _parse_page(text)
    _keep_button_texts(page)
    etree.strip_elements(page, *_HIDDEN, with_tail=False)
    main = _Reader(each for each in page.iter("main") if next(each.iterancestors("main"), None) is None)
    body = page.find("body")
    kept = main if main.sections else _Reader([page if body is None else body])
    canonical = (link.get("href", "") for link in page.iter("link") if _is_canonical(link))
    return Parsed(
        title=clean_title(kept.first_h1) or clean_title(page.findtext(".//title") or ""),
        url=parse_web_address(next(canonical, "")),
        sections=kept.sections,
    )


def _parse_page(text: str) -> "etree._Element":
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    # the parser makes no document of an empty text
    page = etree.fromstring(f"<html>{clean_text(text)}".encode(), parser)
    if any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        raise Invalid("text", "nests HTML elements more than 256 deep")
    return page


def _keep_button_texts(page: "etree._Element") -> None:
    """Keep the texts of buttons that are or contain a heading, or open a part of the page (accordions)."""
    for button in page.iter("button"):
        in_heading = next(button.iterancestors(*_HEADINGS, "summary", "dt"), None) is not None
        opens = button.get("aria-expanded") is not None or button.get("aria-controls") is not None
        is_sentence = " " in " ".join("".join(map(str, button.itertext())).split())
        if in_heading:
            button.tag = "span"
        elif next(button.iter(*_HEADINGS), None) is not None or (opens and is_sentence):
            button.tag = "div"


def _is_data(cell: "etree._Element") -> bool:
    """Return True for a cell of data, whose text is one line; cells with headings or tables are layout."""
    row = cell.getparent()
    return row is not None and len(row) > 1 and next(cell.iter(*_BLOCKS_OF_LAYOUT), None) is None


def _is_canonical(link: "etree._Element") -> bool:
    return link.get("rel", "").lower() == "canonical"


class _Reader:
    """Reads the text of some elements. `first_h1` is "" if they have none."""

    def __init__(self, elements: Iterable["etree._Element"]) -> None:
        self.first_h1 = ""
        self._outline = Outline()
        self._preformatted = 0
        self._after_blank = True
        self._cell: etree._Element | None = None
        self._items = 0
        self._after_mark = False
        for element in elements:
            self._read(element)
        self.sections: tuple[Section, ...] = self._outline.build_sections()

    def _read(self, root: "etree._Element") -> None:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            name = element.tag
            if event == "end":
                self._end(element)
                if element is not root:
                    self._add(element.tail)
            elif name in _HEADINGS:
                self._read_heading(_HEADINGS[name], element)
                walk.skip_subtree()
            else:
                self._start(element)
                self._add(element.text)

    def _start(self, element: "etree._Element") -> None:
        name = element.tag
        if self._cell is not None:
            self._separate(" - " if name == "li" else " " if name == "br" or name in _BLOCKS else "")
        elif name in ("td", "th"):
            is_data = _is_data(element)
            if not self._outline.at_line_start or (is_data and element.getprevious() is not None):
                self._separate(" | ")
            self._cell = element if is_data else None
        elif name == "li":
            self._put("- " if self._outline.at_line_start else "\n- ")
            self._items += 1
            self._after_mark = True
        elif name in _BLOCKS:
            self._break()
        elif name in _LINES:
            self._put("\n")
        self._preformatted += name == "pre"

    def _end(self, element: "etree._Element") -> None:
        name = element.tag
        self._preformatted -= name == "pre"
        if self._cell is not None:
            if element is self._cell:
                self._cell = None
            elif name in _BLOCKS:
                self._separate(" ")
        elif name == "li":
            self._items -= 1
            self._after_mark = False
        elif name in _BLOCKS:
            self._break()

    def _break(self) -> None:
        """End a paragraph; within an item of a list a line, but not right after the item's mark."""
        if not self._items:
            self._put("\n\n")
        elif not self._after_mark and not self._outline.at_line_start:
            self._put("\n")

    def _separate(self, mark: str) -> None:
        """Put a mark between texts of one line, with one blank before it."""
        self._put(mark.removeprefix(" ") if self._after_blank else mark)

    def _read_heading(self, level: int, element: "etree._Element") -> None:
        for line in element.iter("br"):
            line.tail = f" {line.tail or ''}"
        title = " ".join(tidy("".join(map(str, element.itertext()))).split())
        if level == 1:
            self.first_h1 = self.first_h1 or title
        self._outline.add_heading(level, title)
        self._after_blank = True

    def _add(self, text: str | None) -> None:
        text = tidy(text or "")
        if not self._preformatted:
            text = re.sub(r"\s+", " ", text)
            text = text.removeprefix(" ") if self._after_blank else text
        self._put(text)

    def _put(self, text: str) -> None:
        if not text:
            return
        self._after_blank = text[-1].isspace()
        self._after_mark = self._after_mark and not text.strip()
        self._outline.add_text(text)
