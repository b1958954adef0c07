"""The processes of a run folder: a file that the supervisor keeps, for `agentchat status`."""

from pathlib import Path

import msgspec

from agentchat.ops.errors import NotRunningError
from agentchat.ops.folder import RunFolder, write_private
from agentchat.ops.probes import HttpProbe, Probe


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One process, as it was last started, in Unix seconds; `pid` is None while it is down.

    `metrics_url` is None where it has no metrics; `version` is that of its program.
    """

    name: str
    pid: int | None
    started_at: float
    restarts: int
    log: str
    probe: Probe | None = None
    metrics_url: str | None = None
    version: str = ""

    @property
    def health_url(self) -> str | None:
        """The HTTP address of its readiness."""
        return self.probe.url if isinstance(self.probe, HttpProbe) else None


class Record(msgspec.Struct, frozen=True):
    """`pid` is the supervisor's."""

    pid: int
    processes: tuple[Entry, ...] = ()

    def find(self, name: str) -> Entry | None:
        return next((entry for entry in self.processes if entry.name == name), None)


def write(path: Path, record: Record) -> None:
    write_private(path, msgspec.json.encode(record), durable=False)


def read(path: Path) -> Record | None:
    """Return None if there is none, or one that another version has written."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def load_running(folder: RunFolder) -> Record:
    """Return the processes that run in the folder. Raises NotRunningError."""
    kept = read(folder.processes) if folder.in_use() else None
    if kept is None:
        raise NotRunningError(f"nothing runs in {folder.path}")
    return kept
