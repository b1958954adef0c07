"""HTML: what a reader sees, under its headings, without scripts, styles and navigation.

The scanner is our own: the standard library's takes half a minute for 60 kB of unfinished tags, because it
looks at the rest anew at each. This one looks at each character once.
"""

import re
from collections.abc import Iterator
from html import unescape

from knowledge.documents.sections import Outline, Parsed, Section, plain_title, tidy, web_address

# Quotes count only in an attribute's value. Possessive throughout: no character is tried twice.
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+)>""")
_TAG_BEGINS = re.compile(r"</?[a-zA-Z]")
_ATTRIBUTE = re.compile(r"""([a-zA-Z-]+)\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]++)""")
_NUMBER = re.compile(r"&#(?:\d{8,}|[xX][0-9a-fA-F]{7,});?")
_RAW = {"script", "style", "noscript", "template", "iframe", "object", "svg", "math"}
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW}
_SKIPPED = {"nav", "select", "button", "dialog"}
_BLOCK_NAMES = """
address article aside blockquote body caption dd details div dl dt fieldset figcaption figure footer form
header hr legend main ol p pre section summary table tbody tfoot thead ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_LINES = {"br": "\n", "li": "\n- ", "tr": "\n", "td": " | ", "th": " | "}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}


def parse_html(text: str) -> Parsed:
    """The title is the first h1 of what is kept, else the page's; the url is its canonical link.

    Where the page marks its main content (`main`), only that is kept.
    """
    reader = _Reader()
    for start, name, attributes, data in _tokens(text):
        if data:
            reader.data(tidy(unescape(_NUMBER.sub("\ufffd", data))))
        elif name:
            reader.tag(name, attributes, starts=start)
    sections, heading = reader.kept()
    return Parsed(
        title=plain_title(heading) or plain_title(reader.page_title),
        url=web_address(unescape(reader.canonical)),
        sections=sections,
    )


class _Reader:
    """Puts text and headings into two outlines: of the whole page, and of its main content."""

    def __init__(self) -> None:
        self.page_title = ""
        self.canonical = ""
        self._page, self._main = Outline(), Outline()
        self._first_h1 = {False: "", True: ""}
        self._skipping: list[str] = []
        self._heading: tuple[int, list[str]] | None = None
        self._mains = 0
        self._in_title = False
        self._preformatted = False
        self._after_blank = True

    def kept(self) -> tuple[tuple[Section, ...], str]:
        """The sections to keep, and their first h1."""
        self._end_heading()
        main = self._main.sections()
        return (main, self._first_h1[True]) if main else (self._page.sections(), self._first_h1[False])

    def data(self, text: str) -> None:
        """Text between tags."""
        if self._in_title:
            self.page_title += text
        elif self._heading is not None:
            self._heading[1].append(text)
        elif not self._skipping:
            self._add(text if self._preformatted else re.sub(r"\s+", " ", text))

    def tag(self, name: str, attributes: str, *, starts: bool) -> None:
        """A start or an end tag; tags that are not known are looked through."""
        if name == "title":
            self._in_title = starts and not self.page_title
        elif name == "link" and starts:
            self._link(attributes)
        elif name in _SKIPPED:
            self._skip(name, starts=starts)
        elif name in _HEADINGS:
            self._end_heading()
            if starts and not self._skipping:
                self._heading = (_HEADINGS[name], [])
        elif name in _BLOCKS:
            self._block(name, starts=starts)
        elif starts and name in _LINES and not self._skipping:
            self._line(_LINES[name])

    def _block(self, name: str, *, starts: bool) -> None:
        self._end_heading()
        if name in ("main", "body") and starts:
            self._skipping.clear()  # whatever was left open before
        self._add("\n\n")
        if name == "main":
            self._mains = max(0, self._mains + (1 if starts else -1))
        if name == "pre":
            self._preformatted = starts

    def _line(self, mark: str) -> None:
        if self._heading is not None:
            self._heading[1].append(" ")
        elif mark.startswith("\n") or not self._page.at_line_start:
            self._add(mark)

    def _skip(self, name: str, *, starts: bool) -> None:
        if starts:
            self._skipping.append(name)
        elif name in self._skipping:
            del self._skipping[self._skipping.index(name) :]

    def _link(self, attributes: str) -> None:
        found = {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(attributes)}
        if found.get("rel", "").lower() == "canonical" and not self.canonical:
            self.canonical = found.get("href", "")

    def _add(self, text: str) -> None:
        if self._after_blank and not self._preformatted:
            text = text.removeprefix(" ")
        if self._skipping or not text:
            return
        self._after_blank = text[-1].isspace()
        for outline in self._outlines():
            outline.text(text)

    def _end_heading(self) -> None:
        if self._heading is None:
            return
        (level, pieces), self._heading, self._after_blank = self._heading, None, True
        title = " ".join("".join(pieces).split())
        for outline in self._outlines():
            if level == 1 and not self._first_h1[outline is self._main]:
                self._first_h1[outline is self._main] = title
            outline.heading(level, title)

    def _outlines(self) -> tuple[Outline, ...]:
        return (self._page, self._main) if self._mains else (self._page,)


def _tokens(text: str) -> Iterator[tuple[bool, str, str, str]]:
    """(starts, name, attributes, "") for a tag, (False, "", "", data) for text; no comments."""
    at = 0
    while at < len(text):
        mark = text.find("<", at)
        if mark < 0:
            mark = len(text)
        if mark > at:
            yield False, "", "", text[at:mark]
        if text.startswith(("<!", "<?"), mark):
            at = _after_declaration(text, mark)
        elif tag := _TAG.match(text, mark):
            name, at = tag[2].lower(), tag.end()
            if name in _RAW and not tag[1]:
                end = _RAW_ENDS[name].search(text, at)
                at = end.start() if end else len(text)
            yield not tag[1], name, tag[3], ""
        else:
            # A bare mark; where it could begin a tag, no tag ends after it: all the rest is text.
            at = len(text) if _TAG_BEGINS.match(text, mark) else mark + 1
            yield False, "", "", text[mark:at]


def _after_declaration(text: str, mark: int) -> int:
    """The place behind a comment, a doctype or the like; the text's end where it does not end."""
    comment = text.startswith("<!--", mark)
    end = text.find("-->" if comment else ">", mark)
    return len(text) if end < 0 else end + (3 if comment else 1)
