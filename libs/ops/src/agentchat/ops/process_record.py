"""Store the processes of a run folder in a file, written by the supervisor for `agentchat status`."""

from pathlib import Path

import msgspec

from agentchat.ops.errors import NotRunningError
from agentchat.ops.probes import HttpProbe, Probe
from agentchat.ops.run_folder import RunFolder, write_private


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A process and its last start, in Unix seconds; `pid` is None while it is down.

    `ended_at` and `end_reason` describe the last end that was not wanted.
    """

    name: str
    pid: int | None = None
    started_at: float
    restarts: int = 0
    ended_at: float | None = None
    end_reason: str | None = None
    log: str
    probe: Probe | None = None
    metrics_url: str | None = None
    version: str = ""

    @property
    def health_url(self) -> str | None:
        """Address of its readiness check; None if it has no HTTP."""
        return self.probe.url if isinstance(self.probe, HttpProbe) else None


class Record(msgspec.Struct, frozen=True):
    """The processes of a stack; `pid` is the supervisor's."""

    pid: int
    processes: tuple[Entry, ...] = ()

    def find(self, name: str) -> Entry | None:
        """Find the entry of a process by its name."""
        return next((entry for entry in self.processes if entry.name == name), None)


def write(path: Path, record: Record) -> None:
    """Write the record to the file."""
    write_private(path, msgspec.json.encode(record), durable=False)


def read(path: Path) -> Record | None:
    """Read the record; None if there is none, or if another version wrote it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def load_running(folder: RunFolder) -> Record:
    """Load the record of the stack that runs in the folder. Raises NotRunningError."""
    kept = read(folder.processes) if folder.is_in_use() else None
    if kept is None:
        raise NotRunningError(f"nothing runs in {folder.path}")
    return kept
