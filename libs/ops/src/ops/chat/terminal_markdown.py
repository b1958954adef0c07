"""Markdown that is still being streamed: which blocks of it are finished, and how they look."""

from collections.abc import Iterable
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment

from ops.output import clean

# HTML is shown as the text it is: as HTML it would not be seen at all.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])

References = dict[str, Any]
"""The link definitions of a reply so far, kept by the parser."""


def settled(text: str, references: References) -> int:
    """How many characters of `text` are finished blocks, which no later text can change.

    Only complete lines count: the beginning of a line may look like another block than the complete line.
    """
    ended = text[: text.rfind("\n") + 1]
    starts = [token.map[0] for token in _PARSER.parse(ended, references) if token.map and token.level == 0]
    if len(starts) < 2:
        return 0
    return sum(len(line) + 1 for line in ended.split("\n")[: starts[-1]])


class Block:
    """A text for rich, without blank lines around it or blanks at the ends of lines.

    Links show their address: a text must not hide where it leads to. No text controls the terminal: entities
    and addresses are decoded only here, so the tokens are cleaned before the layout, and the output again.
    """

    def __init__(self, text: str, references: References) -> None:
        self._markdown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
        self._markdown.parsed = _PARSER.parse(text, references)
        _clean_tokens(self._markdown.parsed)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines(console, options):
            yield from line
            yield Segment.line()

    def lines(self, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
        """The lines for the terminal."""
        rendered = console.render_lines(self._markdown, options.update(height=None), pad=False)
        lines = [_trimmed(_cleaned(line)) for line in rendered]
        while lines and not lines[0]:
            lines.pop(0)
        while lines and not lines[-1]:
            lines.pop()
        return lines


def _clean_tokens(tokens: Iterable[Token]) -> None:
    for token in tokens:
        token.content = clean(token.content)
        for name, value in token.attrs.items():
            token.attrs[name] = clean(value) if isinstance(value, str) else value
        _clean_tokens(token.children or ())


def _cleaned(line: list[Segment]) -> list[Segment]:
    return [Segment(clean(part.text), part.style) for part in line if not part.control]


def _trimmed(line: list[Segment]) -> list[Segment]:
    line = list(line)
    while line and not line[-1].text.strip():
        line.pop()
    if line:
        last = line[-1]
        line[-1] = Segment(last.text.rstrip(), last.style)
    return line
