"""The last errors in the logs of a run folder: of services, Postgres and NATS."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ops.folder import RunFolder
from ops.stack_report import readable

_TAIL_BYTES = 262_144
"""Of each log: older errors are not looked for."""

_AT = r"(?P<at>\d{4}.\d\d.\d\d \d\d:\d\d:\d\d\.\d+)"
_POSTGRES = re.compile(_AT + r" UTC \[\d+\] (?P<text>(?:ERROR|FATAL|PANIC): .+)")
_NATS = re.compile(r"\[\d+\] " + _AT + r" (?P<text>\[(?:ERR|FTL)\] .+)")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a log. `at` is ISO 8601, UTC."""

    at: str
    service: str
    text: str


class _Line(msgspec.Struct):
    timestamp: str = ""
    level: str = ""


def last_errors(folder: RunFolder, limit: int) -> list[Problem]:
    """The newest ones since the stack's start, the newest last."""
    found = [
        problem
        for log in folder.logs.glob("*.log")
        for line in _tail(log)
        if (problem := _problem(log.stem, line))
    ]
    return sorted(found, key=lambda each: each.at)[-limit:]


def _problem(service: str, line: str) -> Problem | None:
    if line.startswith("{"):
        try:
            head = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:
            return None
        if head.level not in ("error", "critical"):
            return None
        return Problem(at=head.timestamp, service=service, text=readable(line))
    for pattern in (_POSTGRES, _NATS):
        if found := pattern.match(line):
            at = datetime.fromisoformat(found["at"].replace("/", "-")).replace(tzinfo=UTC)
            return Problem(at=at.isoformat().replace("+00:00", "Z"), service=service, text=found["text"])
    return None


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
