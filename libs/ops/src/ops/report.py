"""What a starting, running and stopping stack tells its user, on stderr."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

_TAIL_LINES = 12
_TAIL_BYTES = 32768
_LINE_CHARACTERS = 300
_EVERYWHERE = {"timestamp", "level", "service", "component"}


class Report:
    """Plain lines, for logs and pipes."""

    def begin(self, names: Sequence[str]) -> None:
        """These are to be started."""

    def starting(self, name: str) -> None:
        """A process or job is being started for the first time."""

    def ready(self, name: str, seconds: float) -> None:
        """It took this long from its own start."""
        self.note(f"{name} is ready ({seconds:.2f} s)")

    def end(self) -> None:
        """The start is over, well or not."""

    def died(self, name: str, how: str, log: Path, offset: int, again_in: float | None) -> None:
        """`again_in`: seconds to its next start; None where there will be none."""
        lines = tail(log, offset)
        told = "its last lines:" if lines else "it left no line in its log."
        self.note(f"{name} {how}; {told}")
        for line in lines:
            self.note(f"    {line}")
        if again_in is not None:
            self.note(f"{name} is started again" + (f" in {again_in:.0f} s" if again_in >= 1 else ""))

    def note(self, text: str) -> None:
        sys.stderr.write(f"agentchat: {text}\n")
        sys.stderr.flush()


class Board(Report):
    """A line with a clock for each process, while they start on a terminal; plain lines before and after."""

    def __init__(self) -> None:
        self._live: Any = None
        self._names: Sequence[str] = ()
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def begin(self, names: Sequence[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._names = names
        self._live = Live(get_renderable=self._table, console=Console(stderr=True), refresh_per_second=5)
        self._live.start()

    def starting(self, name: str) -> None:
        self._began.setdefault(name, time.monotonic())

    def ready(self, name: str, seconds: float) -> None:
        if self._live is None:
            super().ready(name, seconds)
        self._took[name] = seconds

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def note(self, text: str) -> None:
        if self._live is None:
            super().note(text)
        else:
            self._live.console.print(f"agentchat: {text}", markup=False, highlight=False)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name in self._names:
            if name in self._took:
                table.add_row(Text("✓", "green"), name, Text(f"{self._took[name]:.1f} s", "dim"))
            elif name in self._began:
                table.add_row(Text("…", "yellow"), name, Text(f"{now - self._began[name]:.1f} s", "yellow"))
            else:
                table.add_row(" ", Text(name, "dim"), Text("waits", "dim"))
        return table


def tail(log: Path, offset: int = 0) -> list[str]:
    """The last lines of a log, from `offset` bytes on at the earliest, made readable."""
    try:
        with open(log, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(offset, size - _TAIL_BYTES, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [readable(line) for line in text.splitlines() if line.strip()][-_TAIL_LINES:]


def readable(line: str) -> str:
    """A JSON log line as `event key=value ...: error`, without its traceback; another line as it is."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
        event = entry.pop("event")
    except (msgspec.DecodeError, KeyError):
        return line.rstrip()[:_LINE_CHARACTERS]
    error = str(entry.pop("exception", "")).strip().rpartition("\n")[2]
    fields = " ".join(f"{name}={value}" for name, value in entry.items() if name not in _EVERYWHERE)
    return f"{event} {fields}".strip()[:_LINE_CHARACTERS] + (f": {error}" if error else "")
