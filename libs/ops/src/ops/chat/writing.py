"""One reply while it is streamed to a terminal: finished blocks are printed once, the last one is live."""

import asyncio
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from ops.output import clean, compact, one_line

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


_SECONDS = 0.08
_SHARE = 4
"""Drawing takes at most one part in so many of the time: a block may be long."""
_SPARE_LINES = 4


class Writing:
    """A context manager: when it is left, the live part ends and the complete reply is printed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._references: References = {}
        self._text = ""
        self._judged = False
        self._changed = False
        self._blocks = 0
        self._spinner = Spinner("dots", style="dim")
        self._live = Live(
            self, console=console, auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False, vertical_overflow="crop",
        )  # fmt: skip
        self._drawing: asyncio.Task[None] | None = None
        self.status("thinking")

    async def __aenter__(self) -> Self:
        self._live.start()
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._drawing = asyncio.create_task(self._draw())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            await asyncio.wait((self._drawing,))
        text, self._text = self._text, ""
        self.status("")
        self._live.stop()
        self._block(text)

    def status(self, text: str) -> None:
        """The text next to the spinner; without a text there is no spinner."""
        self._status = text
        self._spinner.update(text=Text(text, "dim"))

    def add(self, text: str) -> None:
        """The next piece of the reply."""
        self._text += clean(text)
        self._judged = self._judged and "\n" not in text
        self._changed = True
        self.status("")

    def call(self, name: str, given: dict[str, Any]) -> None:
        """The agent calls a tool; the text before the call is complete."""
        text, self._text = self._text, ""
        self._block(text)
        shown = one_line(name, 64)
        room = max(20, self._console.width - len(shown) - 6)
        self._space()
        line = Text.assemble(("⚙ ", "cyan"), (shown, "bold cyan"), " ", (compact(given, room), "dim"))
        self._console.print(line, no_wrap=True, overflow="ellipsis")
        self.status(f"{shown} runs")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The last lines of the unfinished block; all of it is printed when it is finished."""
        if self._text.strip():
            if self._blocks:
                yield Segment.line()
            most = max(1, console.height - _SPARE_LINES)
            lines = Block(self._text, dict(self._references)).lines(console, options)
            for line in lines[-most:]:
                yield from line
                yield Segment.line()
        if self._status:
            yield self._spinner

    async def _draw(self) -> None:
        wait = _SECONDS
        while True:
            await asyncio.sleep(wait)
            if not (self._changed or self._status):
                continue
            began = time.monotonic()
            self._settle()
            self._changed = False
            self._live.refresh()
            wait = max(_SECONDS, _SHARE * (time.monotonic() - began))

    def _settle(self) -> None:
        """Print what cannot change any more; the live part is drawn below it in the same write."""
        if self._judged:
            return
        self._judged = True
        length = settled(self._text, self._references)
        if length:
            text, self._text = self._text[:length], self._text[length:]
            self._block(text)

    def _block(self, text: str) -> None:
        if text.strip():
            self._space()
            self._console.print(Block(text, self._references))

    def _space(self) -> None:
        if self._blocks:
            self._console.print()
        self._blocks += 1
