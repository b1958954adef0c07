"""Markdown that is still being written: what of it is settled, and how it looks."""

from typing import Any

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment

# HTML is shown as the text it is: as HTML it would not be seen at all.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])

References = dict[str, Any]
"""The link definitions of a reply so far, kept by the parser."""


def settled(text: str, references: References) -> int:
    """How many characters of `text` are whole blocks, which nothing that follows can change.

    Only ended lines are judged: the beginning of a line may look like another block than its whole does.
    """
    ended = text[: text.rfind("\n") + 1]
    starts = [token.map[0] for token in _PARSER.parse(ended, references) if token.map and token.level == 0]
    if len(starts) < 2:
        return 0
    return sum(len(line) + 1 for line in ended.split("\n")[: starts[-1]])


class Block:
    """A text for rich, without blank lines around it or blanks at the ends of lines.

    Links show their address: a text must not hide where it leads to.
    """

    def __init__(self, text: str, references: References) -> None:
        self._markdown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
        self._markdown.parsed = _PARSER.parse(text, references)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines(console, options):
            yield from line
            yield Segment.line()

    def lines(self, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
        """As the terminal is to show them."""
        rendered = console.render_lines(self._markdown, options.update(height=None), pad=False)
        lines = [_trimmed(line) for line in rendered]
        while lines and not lines[0]:
            lines.pop(0)
        while lines and not lines[-1]:
            lines.pop()
        return lines


def _trimmed(line: list[Segment]) -> list[Segment]:
    line = list(line)
    while line and not line[-1].text.strip():
        line.pop()
    if line:
        last = line[-1]
        line[-1] = Segment(last.text.rstrip(), last.style)
    return line
