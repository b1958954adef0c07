"""What the terminal shows in addition to streamed replies. Foreign text is cleaned (`ops.output`)."""

import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from agentchat_client import Conversation, HistoryMessage, Source, ToolRun
from ops.chat.writing import Block
from ops.output import clean, compact, one_line, pretty

_TITLE = 60
_SNIPPET = 160
_FAILURE = 600


class Screen:
    """The terminal. `console` is for replies, which draw themselves."""

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal without our symbols
        self.console = Console(highlight=False, markup=False, emoji=False)

    def say(self, text: str) -> None:
        self.console.print(Text(clean(text), "dim"))

    def fail(self, text: str) -> None:
        """An error, in one line."""
        self.console.print(Text(f"✗ {one_line(text, _FAILURE)}", "red"))

    def sources(self, sources: Sequence[Source]) -> None:
        """The passages that a reply cites, by their numbers."""
        table = Table.grid(padding=(0, 1))
        table.add_column(style="cyan", justify="right")
        table.add_column(overflow="fold")
        for source in sources:
            lines = Text(one_line(source.title or source.id, 200), "bold")
            lines.append(f"  {one_line(source.source_type, 24)} {source.score:.2f}", "dim not bold")
            if source.url:
                lines.append(f"\n{one_line(source.url, 500)}", "cyan not bold")
            lines.append(f"\n{one_line(source.snippet, _SNIPPET)}", "dim not bold")
            table.add_row(f"[{source.index}]", lines)
        self.console.print(Text("Sources", "dim"))
        self.console.print(table)

    def tools(self, tools: Sequence[ToolRun]) -> None:
        """The complete input and output of each tool."""
        for tool in tools:
            self.console.print(Text.assemble(("⚙ ", "cyan"), (one_line(tool.name, 64), "bold cyan")))
            self._json(compact(tool.input, 2000))
            self._json(pretty(tool.output))

    def threads(self, threads: Sequence[Conversation], current: str | None) -> None:
        """Numbered, the newest first."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("", "LAST", "MESSAGES"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("THREAD", no_wrap=True, overflow="ellipsis")
        for number, thread in enumerate(threads, 1):
            here = thread.conversation_id == current
            title = Text(one_line(thread.title or "(untitled)", _TITLE), "bold" if here else "")
            table.add_row(str(number), ago(thread.updated_at), str(thread.message_count), title)
        self.console.print(table)

    def messages(self, messages: Sequence[HistoryMessage]) -> None:
        for message in messages:
            if message.role == "user":
                self.console.print(Text.assemble(("> ", "bold green"), clean(message.content)))
            else:
                self.console.print(Block(clean(message.content), {}))
            self.console.print()

    def pairs(self, rows: Sequence[tuple[str, str]]) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, meaning in rows:
            table.add_row(Text(clean(name)), Text(clean(meaning)))
        self.console.print(table)

    def _json(self, text: str) -> None:
        self.console.print(
            Syntax(text, "json", theme="ansi_dark", background_color="default", word_wrap=True)
        )


def ago(at: str) -> str:
    """The time since an ISO 8601 time."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return one_line(at, 32)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{math.ceil(seconds / size)} {unit} ago"
    return f"{math.ceil(seconds)} s ago"
