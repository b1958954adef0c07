"""`agentchat logs`: the services' logs in the order of time, filtered, and followed with `--follow`."""

import heapq
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from ops import environment, printing
from ops.errors import NotRunningError, SetupError
from ops.output import one_line
from ops.status.server_logs import server_line

LEVELS = ("debug", "info", "warning", "error", "critical")
_EVERY_SECONDS = 0.2
_STYLES = {"warning": "yellow", "error": "red", "critical": "red", "debug": "dim"}
_NOT_SHOWN = {"timestamp", "level", "event", "service", "component"}


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a log. `at` is ISO 8601, UTC; `service` has its number, such as `gateway-1`."""

    at: str
    service: str
    level: str
    event: str
    fields: dict[str, Any] = {}


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are shown. `services` are names with or without a number; none: all."""

    services: tuple[str, ...] = ()
    level: str = "info"
    trace: str | None = None
    since: datetime | None = None

    def takes(self, line: LogLine) -> bool:
        """Whether the line is one of them."""
        return (
            LEVELS.index(line.level) >= LEVELS.index(self.level)
            and (self.trace is None or self.trace in (line.fields.get("trace_id"), line.fields.get("trace")))
            and (self.since is None or datetime.fromisoformat(line.at) >= self.since)
        )

    def reads(self, service: str) -> bool:
        """Whether it is one of the services."""
        return not self.services or any(
            service == each or service.rpartition("-")[0] == each for each in self.services
        )


def logs(wanted: LogFilter, *, follow: bool, as_json: bool) -> None:
    """Print the lines; with `follow` also those to come, until Ctrl-C. Raises NotRunningError, SetupError."""
    folder = environment.run_folder()
    if not folder.logs.is_dir():
        raise NotRunningError(f"no logs in {folder.path}")
    files = [LogFile(path) for path in sorted(folder.logs.glob("*.log")) if wanted.reads(path.stem)]
    if not files:
        known = ", ".join(sorted(path.stem for path in folder.logs.glob("*.log")))
        raise SetupError(f"--service: there is none of this name; there are {known}")
    try:
        _write(_merged(files, wanted), as_json=as_json)
        while follow:
            time.sleep(_EVERY_SECONDS)
            _write(_merged(files, wanted), as_json=as_json)
    except KeyboardInterrupt:
        pass


def _merged(files: Sequence["LogFile"], wanted: LogFilter) -> Iterator[LogLine]:
    """What the files have that was not read, by time."""
    lines = heapq.merge(*(file.unread() for file in files), key=lambda line: line.at)
    return (line for line in lines if wanted.takes(line))


class LogFile:
    """A log that grows, and is begun again when its process starts again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._inode = 0

    def unread(self) -> Iterator[LogLine]:
        """Its complete lines since the last call. Those of another form, of a traceback, are left out."""
        try:
            with self._path.open("rb") as file:
                stat = self._path.stat()
                if stat.st_ino != self._inode or stat.st_size < self._read:
                    self._inode, self._read = stat.st_ino, 0
                file.seek(self._read)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._read += len(line)
                    if parsed := parse(self._path.stem, line.decode(errors="replace").strip()):
                        yield parsed
        except OSError:
            return


def parse(service: str, line: str) -> LogLine | None:
    """A line of one of our services, of Postgres or of NATS; None for anything else."""
    if line.startswith("{"):
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            level = str(fields.get("level", "info"))
            return LogLine(
                at=str(fields["timestamp"]),
                service=service,
                level=level if level in LEVELS else "info",
                event=str(fields.get("event", "")),
                fields={name: value for name, value in fields.items() if name not in _NOT_SHOWN},
            )
        except (msgspec.DecodeError, KeyError):
            return None
    found = server_line(line)
    return (
        None if found is None else LogLine(at=found.at, service=service, level=found.level, event=found.event)
    )


def _write(lines: Iterable[LogLine], *, as_json: bool) -> None:
    console = printing.console()
    for line in lines:
        if as_json:
            sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        else:
            console.print(_shown(line), soft_wrap=True)
    sys.stdout.flush()


def _shown(line: LogLine) -> Text:
    text = Text(f"{line.at[:23]} ", style="dim")
    text.append(f"{line.service:<15} ", style="cyan")
    text.append(f"{line.level:<8} ", style=_STYLES.get(line.level, ""))
    text.append(one_line(line.event, 10_000), style=_STYLES.get(line.level, "bold"))
    for name, value in line.fields.items():
        text.append(f" {name}=", style="dim")
        text.append(
            one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 10_000)
        )
    return text
