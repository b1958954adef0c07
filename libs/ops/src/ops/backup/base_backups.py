"""A backup folder: base backups, the write-ahead log since the oldest of them, the run folder's secrets.

base/20261125T210000Z/    a base backup by pg_basebackup, with its manifest
base/….part/              one that was interrupted: never restored, removed by the next
wal/                      segments by pg_receivewal; the newest one ends with .partial
secrets.json              of the run folder: without it sealed secrets cannot be read any more
"""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ops.errors import RefusedError, SetupError

STAMP = "%Y%m%dT%H%M%SZ"
_SEGMENT = re.compile(r"[0-9A-F]{24}")
_INFO = "agentchat_backup.json"


class BackupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a base backup states. Times are ISO 8601, UTC; nothing earlier than `ended_at` can be restored."""

    began_at: str
    ended_at: str
    version: str
    first_segment: str
    """The oldest segment of the write-ahead log that it needs."""


class BackupFolder:
    """Paths in a backup folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.base = self.path / "base"
        self.wal = self.path / "wal"
        self.secrets = self.path / "secrets.json"

    def create(self) -> None:
        """Closed to other users: it holds everything. Raises SetupError."""
        try:
            for each in (self.path, self.base, self.wal):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(f"the backup folder {self.path} cannot be written: {error.strerror}") from error

    def begin(self, now: datetime) -> Path:
        """Where a new base backup is made; what an interrupted one has left goes."""
        for left in self.base.glob("*.part"):
            shutil.rmtree(left)
        return self.base / f"{now.strftime(STAMP)}.part"

    def complete(self, made: Path, info: BackupInfo) -> Path:
        """From now on it counts."""
        (made / _INFO).write_bytes(msgspec.json.encode(info))
        done = made.with_suffix("")
        made.replace(done)
        return done

    def backups(self) -> list[Path]:
        """The complete ones, the newest last."""
        return sorted(path for path in self.base.glob("*Z") if (path / _INFO).exists())

    def choose(self, at: datetime | None) -> Path:
        """The newest that ended before `at`. Raises RefusedError where there is none."""
        fitting = [each for each in self.backups() if at is None or ended_at(each) <= at]
        if fitting:
            return fitting[-1]
        if at is None:
            raise RefusedError(f"{self.path} has no complete backup", 2)
        first = min((info_of(each).ended_at for each in self.backups()), default=None)
        reach = f"the oldest one ended at {first}" if first else "it has none"
        raise RefusedError(f"{self.path} has no backup from before {at.isoformat()}: {reach}", 2)

    def segments(self, first: str) -> list[Path]:
        """The write-ahead log from segment `first` on, of all timelines."""
        return sorted(
            path
            for path in self.wal.iterdir()
            if path.suffix == ".history" or (_SEGMENT.match(path.name) and path.name[8:24] >= first[8:24])
            if path.suffix != ".partial" or not path.with_suffix("").exists()
        )

    def remove_older(self, keep: int) -> list[str]:
        """Keep the newest `keep` base backups, and the write-ahead log since the oldest of them."""
        old, kept = self.backups()[:-keep], self.backups()[-keep:]
        for each in old:
            shutil.rmtree(each)
        first = info_of(kept[0]).first_segment
        needed = set(self.segments(first))
        for path in self.wal.iterdir():
            if path not in needed and _SEGMENT.match(path.name):
                path.unlink()
        return [each.name for each in old]


def info_of(backup: Path) -> BackupInfo:
    """Raises RefusedError where it is damaged."""
    try:
        return msgspec.json.decode((backup / _INFO).read_bytes(), type=BackupInfo)
    except (OSError, msgspec.DecodeError) as error:
        raise RefusedError(f"the backup {backup} is damaged: {error}") from error


def ended_at(backup: Path) -> datetime:
    """When it was complete."""
    return datetime.fromisoformat(info_of(backup).ended_at)


def now() -> datetime:
    return datetime.now(UTC)
