"""Report on stderr what happens while a stack starts, runs and stops."""

import sys
from pathlib import Path
from typing import Any

import msgspec

_TAIL_LINES = 12
_TAIL_BYTES = 32768
_LINE_CHARACTERS = 300
_EVERYWHERE = {"timestamp", "level", "service", "component"}


class Report:
    """A report with one line per message."""

    def report_ready(self, name: str, seconds: float) -> None:
        """Report that a process is ready, `seconds` after its start."""
        self.note(f"{name} is ready ({seconds:.2f} s)")

    def report_end(self, name: str, how: str, log: Path, offset: int, again_in: float | None) -> None:
        """Report that a process ended; `again_in` is the time to its next start, None for none."""
        lines = read_last_lines(log, offset)
        about = "its last lines:" if lines else "its log is empty."
        self.note(f"{name} {how}; {about}")
        for line in lines:
            self.note(f"    {line}")
        if again_in is not None:
            self.note(f"restarting {name}" + (f" in {again_in:.0f} s" if again_in >= 1 else ""))

    def note(self, text: str) -> None:
        """Write a message."""
        sys.stderr.write(f"agentchat: {text}\n")
        sys.stderr.flush()


class QuietReport(Report):
    """A report of failures only."""

    def report_ready(self, name: str, seconds: float) -> None:
        """Report nothing: the process started as expected."""


def read_last_lines(log: Path, offset: int = 0) -> list[str]:
    """Return the last lines of a log, from `offset` bytes on at the earliest, made readable."""
    lines = read_end(log, _TAIL_BYTES, offset)
    return [format_log_line(line) for line in lines if line.strip()][-_TAIL_LINES:]


def read_end(log: Path, most_bytes: int, offset: int = 0) -> list[str]:
    """Return the lines in the last bytes of a log, from `offset` on; none if it cannot be read."""
    try:
        with open(log, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(offset, size - most_bytes, 0))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def format_log_line(line: str) -> str:
    """Format a JSON log line as `event key=value ...: error`, without traceback; keep other lines."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
        event = entry.pop("event")
    except (msgspec.DecodeError, KeyError):
        return line.rstrip()[:_LINE_CHARACTERS]
    error = str(entry.pop("exception", "")).strip().rpartition("\n")[2]
    fields = " ".join(f"{name}={value}" for name, value in entry.items() if name not in _EVERYWHERE)
    return f"{event} {fields}".strip()[:_LINE_CHARACTERS] + (f": {error}" if error else "")
