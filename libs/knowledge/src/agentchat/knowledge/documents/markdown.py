"""Parse Markdown: headings make sections; everything else stays as written, since models read Markdown.

markdown-it-py finds the blocks. Front matter gives title and url. Comments are removed: they are notes to
authors, not to customers.
"""

import re
from collections.abc import Sequence

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agentchat.knowledge.documents.sections import Outline, Parsed, clean_title, parse_web_address

_CONTINUED = re.compile(r"[ \t]+\S|- |#|\s*$")
_FRONT_LINE = re.compile(r"(\w[\w-]*)[ \t]*:[ \t]*(.*)")
_COMMENT = re.compile("<!--.*?-->")
_HEADING_ID = re.compile(r"\s*\{#[^{}]*\}$")
_STAYS_A_LINE = (">", "|")
_HARD_BREAKS = ("  ", "\\")
_TITLE_CHARS = 1000


def parse_markdown(text: str) -> Parsed:
    """Parse tidy text. The title is the front matter's, else the first heading of level 1."""
    front, lines = _read_front_matter(text.split("\n"))
    first_title, outline = _read(lines)
    return Parsed(
        title=clean_title(front.get("title", "")) or first_title,
        url=parse_web_address(front.get("url", "")),
        sections=outline.build_sections(),
    )


def _read(lines: list[str]) -> tuple[str | None, Outline]:
    """Return the first title of level 1, and the lines under their headings.

    A line break within a paragraph becomes a blank, since it does not end a sentence.
    """
    first_title, outline = None, Outline()
    body = "\n".join(lines)
    headings, comments, code, joined = _find_marks(_blocks.parse(body), lines)
    at = 0
    while at < len(lines):
        if at in headings:
            at, level, title = headings[at]
            if level == 1 and first_title is None:
                first_title = clean_title(title)
            outline.add_heading(level, title)
            continue
        line = lines[at]
        if at in comments:
            at = comments[at]
            line = lines[at].partition("-->")[2]
        if at not in code:
            commented, last, rest = line.rpartition("-->")
            line = _COMMENT.sub("", commented + last) + rest
        outline.add_text(f" {line.strip()}" if at in joined else f"\n{line}")
        at += 1
    return first_title, outline


_Headings = dict[int, tuple[int, int, str]]
_Marked = tuple[_Headings, dict[int, int], set[int], set[int]]


def _find_marks(tokens: Sequence[Token], lines: list[str]) -> _Marked:
    """Return what is special, by line number.

    Headings by their first line (end, level, title), comments from their first to their last line, the lines
    of code, and the lines that continue a paragraph.
    """
    headings: _Headings = {}
    comments: dict[int, int] = {}
    code: set[int] = set()
    joined: set[int] = set()
    for number, token in enumerate(tokens):
        if token.map is None:
            continue
        begin, end = token.map
        if token.type == "heading_open" and token.level == 0:
            headings[begin] = end, int(token.tag[1]), _strip_marks(tokens[number + 1].content)
        elif token.type == "html_block" and re.match(r"\s*<!--.*?-->", token.content, re.DOTALL):
            comments[begin] = end - 1
        elif token.type in ("fence", "code_block"):
            code.update(range(begin, end))
        elif token.type == "paragraph_open":
            joined.update(
                at
                for at in range(begin + 1, end)
                if not lines[at - 1].endswith(_HARD_BREAKS)
                and not lines[at].lstrip().startswith(_STAYS_A_LINE)
            )
    return headings, comments, code, joined


def _block_parser() -> MarkdownIt:
    rules = ("table", "code", "fence", "blockquote", "hr", "list", "heading", "lheading", "html_block")
    return MarkdownIt("zero", {"html": True}).enable(rules).disable("inline")


_blocks = _block_parser()
_inline = MarkdownIt("commonmark")


def _read_front_matter(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the front matter and the lines after it.

    Front matter is a YAML mapping between two lines of dashes at the beginning. Anything else there is text
    after a rule, and stays.
    """
    if lines[0].rstrip() != "---" or len(lines) < 2 or not lines[1].strip():
        return {}, lines
    for end, line in enumerate(lines[1:200], start=1):
        if line.rstrip() in ("---", "..."):
            found = _parse_front_matter(lines[1:end])
            return ({}, lines) if found is None else (found, lines[end + 1 :])
    return {}, lines


def _parse_front_matter(lines: list[str]) -> dict[str, str] | None:
    """Return the mapping's plain values, or None if the lines are no mapping."""
    try:
        parsed = yaml.load("\n".join(lines), Loader=yaml.BaseLoader)  # noqa: S506 - only builds text
    except (yaml.YAMLError, RecursionError, ValueError):
        # Most often a colon in a title without quotes.
        if not all(_FRONT_LINE.match(line) or _CONTINUED.match(line) for line in lines):
            return None
        found = [match for line in lines if (match := _FRONT_LINE.match(line))]
        return {match[1].lower(): match[2].strip().strip("\"'") for match in found}
    if not isinstance(parsed, dict):
        return {} if parsed is None or not any(line.strip() for line in lines) else None
    return {str(name).lower(): value for name, value in parsed.items() if isinstance(value, str)}


def _strip_marks(heading: str) -> str:
    """Return a heading's words without Markdown's marks. One that is too long for a title stays as it is."""
    if len(heading) > _TITLE_CHARS:
        return heading
    (token,) = _inline.parseInline(_HEADING_ID.sub("", heading))
    words = (
        " " if part.type == "softbreak" else part.content
        for part in token.children or ()
        if not part.tag or part.type in ("code_inline", "image", "softbreak")
    )
    return "".join(words)
