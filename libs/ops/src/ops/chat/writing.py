"""One reply while it is written on a terminal: settled blocks for good, and the last one live below them.

So the terminal's own scroll-back holds the whole reply, each block once, and only a few lines are ever
painted again.
"""

import asyncio
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from ops.chat.terminal_markdown import Block, References, settled
from ops.output import clean, compact, one_line

_SECONDS = 0.08
_SHARE = 4
"""Painting takes at most one part in so many of the time: a block may be long."""
_SPARE_LINES = 4


class Writing:
    """Used as a context: the live part ends with it, and all of the reply is there."""

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
        self._painter: asyncio.Task[None] | None = None
        self.status("thinking")

    async def __aenter__(self) -> Self:
        self._live.start()
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._painter = asyncio.create_task(self._paint())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._painter is not None:
            self._painter.cancel()
            await asyncio.wait((self._painter,))
        text, self._text = self._text, ""
        self.status("")
        self._live.stop()
        self._block(text)

    def status(self, text: str) -> None:
        """What is waited for, beside the spinner; an empty text for nothing."""
        self._status = text
        self._spinner.update(text=Text(text, "dim"))

    def add(self, text: str) -> None:
        """The next piece of the reply."""
        self._text += clean(text)
        self._judged = self._judged and "\n" not in text
        self._changed = True
        self.status("")

    def call(self, name: str, given: dict[str, Any]) -> None:
        """The agent calls a tool; what was said before it is complete."""
        text, self._text = self._text, ""
        self._block(text)
        shown = one_line(name, 64)
        room = max(20, self._console.width - len(shown) - 6)
        self._space()
        line = Text.assemble(("⚙ ", "cyan"), (shown, "bold cyan"), " ", (compact(given, room), "dim"))
        self._console.print(line, no_wrap=True, overflow="ellipsis")
        self.status(f"{shown} runs")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The last lines of the block that is being written; all of it is printed when it is settled."""
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

    async def _paint(self) -> None:
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
        """Print what cannot change any more; the live part is painted below it in the same write."""
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
