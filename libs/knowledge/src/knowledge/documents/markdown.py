"""Markdown: headings make sections, everything else stays as it is written: models read Markdown.

Front matter gives title and url. Comments are left out: they are notes to authors, not to customers.
"""

import re

from knowledge.documents.sections import Outline, Parsed, plain_title, web_address

_FRONT_LINE = re.compile(r"(\w[\w-]*)[ \t]*:[ \t]*(.*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^| )#+$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_BEGINS_BLOCK = re.compile(r"\s*(?:[-*+>|#=]|\d+[.)]\s|$)|\s{4}|.*\s\|")
_ENDS_LINE = re.compile(r"(?:  |\\)$|^\s{4}|\|")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_EMPHASIS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_HEADING_ID = re.compile(r" ?\{#[^{}]*\}$")


def parse_markdown(text: str) -> Parsed:
    """`text` is tidy. The title is the front matter's, else the first heading of the first level."""
    front, lines = _front_matter(text.split("\n"))
    reader = _Reader(lines)
    reader.read()
    return Parsed(
        title=plain_title(front.get("title", "")) or reader.title,
        url=web_address(front.get("url", "")),
        sections=reader.outline.sections(),
    )


class _Reader:
    """One pass over the lines. `title`: the first heading of level 1."""

    def __init__(self, lines: list[str]) -> None:
        self.outline = Outline()
        self.title: str | None = None
        self._lines = lines
        self._fence = ""
        self._held: str | None = None  # a line that is a heading if the next one underlines it
        self._goes_on = False  # whether a plain line continues the paragraph
        self._last_comment_end = max((at for at, line in enumerate(lines) if "-->" in line), default=-1)

    def read(self) -> None:
        """Fill the outline."""
        at = 0
        while at < len(self._lines):
            line = self._lines[at]
            if self._fence:
                self._in_fence(line)
            elif line.lstrip().startswith("<!--") and self._last_comment_end >= at:
                at, line = self._after_comment(at)
                self._outside(line)
            else:
                self._outside(line)
            at += 1
        self._release()

    def _in_fence(self, line: str) -> None:
        self.outline.text("\n" + line)
        fence = _FENCE.match(line)
        if fence and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""

    def _outside(self, line: str) -> None:
        line = _without_comments(line)
        if self._held is not None and (underline := _UNDERLINE.match(line)):
            title, self._held = self._held, None
            self._heading(1 if underline[1][0] == "=" else 2, title)
            return
        follows_blank = self._held is None and self.outline.at_paragraph_start
        self._release()
        if heading := _ATX.match(line):
            self._heading(len(heading[1]), heading[2] or "")
        elif fence := _FENCE.match(line):
            self._fence, self._goes_on = fence[1], False
            self.outline.text("\n" + line)
        elif follows_blank and not _BEGINS_BLOCK.match(line):
            self._held = line
        else:
            self._text(line)

    def _text(self, line: str) -> None:
        """A line break within a paragraph is a blank to its reader, and no end to a sentence."""
        if self._goes_on and not _BEGINS_BLOCK.match(line):
            self.outline.text(" " + line.strip())
        else:
            self.outline.text("\n" + line)
        self._goes_on = bool(line.strip()) and not _ENDS_LINE.search(line)

    def _after_comment(self, at: int) -> tuple[int, str]:
        """The place of the line where the comment ends, and what follows it there."""
        while "-->" not in self._lines[at]:
            at += 1
        return at, self._lines[at].partition("-->")[2]

    def _heading(self, level: int, source: str) -> None:
        title = _plain(source)
        if level == 1 and self.title is None:
            self.title = plain_title(title)
        self._goes_on = False
        self.outline.heading(level, title)

    def _release(self) -> None:
        if self._held is not None:
            self._text(self._held)
            self._held = None


def _without_comments(line: str) -> str:
    """Without the comments that begin and end on the line."""
    start = line.find("<!--")
    while start >= 0 and (end := line.find("-->", start)) >= 0:
        line = line[:start] + line[end + 3 :]
        start = line.find("<!--", start)
    return line


def _front_matter(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """`key: value` lines between two lines of dashes at the beginning; nothing else of YAML is understood."""
    if lines[0].rstrip() != "---":
        return {}, lines
    for end, line in enumerate(lines[1:200], start=1):
        if line.rstrip() in ("---", "..."):
            found = [match for line in lines[1:end] if (match := _FRONT_LINE.match(line))]
            return {match[1].lower(): match[2].strip().strip("\"'") for match in found}, lines[end + 1 :]
    return {}, lines


def _plain(heading: str) -> str:
    """A heading's words without the marks of Markdown."""
    words = " ".join(heading.split())
    return _EMPHASIS.sub("", _LINK.sub(r"\1", _HEADING_ID.sub("", _CLOSING_HASHES.sub("", words))))
