"""Manage a backup folder: base backups, the write-ahead log since the oldest, the run folder's secrets.

base/20261125T210000.123456Z/    a base backup by pg_basebackup, with its manifest; named after when it ended
base/unfinished/                 the one that is being made, or was interrupted: never restored
wal/                             segments by pg_receivewal; the newest one ends with .partial
secrets.json                     of the run folder: without it sealed secrets cannot be read any more
"""

import hashlib
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from agentchat.ops.errors import RefusedError, SetupError

_NAME = "%Y%m%dT%H%M%S.%fZ"
_SEGMENT = re.compile(r"[0-9A-F]{24}")
"""A file of the write-ahead log: its timeline and its place, 8 and 16 digits."""
_FIRST_SEGMENT = re.compile(rf"START WAL LOCATION: .*file ({_SEGMENT.pattern})\)")


class BackupFolder:
    """Paths in a backup folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.base = self.path / "base"
        self.wal = self.path / "wal"
        self.secrets = self.path / "secrets.json"
        self.unfinished = self.base / "unfinished"

    def create(self) -> None:
        """Make the folder, closed to other users: it holds everything. Raises SetupError."""
        try:
            for each in (self.path, self.base, self.wal):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(f"the backup folder {self.path} cannot be written: {error.strerror}") from error

    def complete(self, ended_at: datetime) -> Path:
        """Rename the unfinished base backup to its final name; return its folder."""
        return self.unfinished.replace(self.base / ended_at.strftime(_NAME))

    def list_backups(self) -> list[Path]:
        """Return the complete base backups, the newest last."""
        return sorted(self.base.glob("*Z"))

    def choose(self, at: datetime | None) -> Path:
        """Return the newest base backup that ended before `at`. Raises RefusedError if there is none."""
        backups = self.list_backups()
        if not backups:
            raise RefusedError(f"{self.path} has no complete backup", 2)
        fitting = [each for each in backups if at is None or read_end_time(each) <= at]
        if not fitting:
            first = read_end_time(backups[0]).isoformat(timespec="milliseconds")
            raise RefusedError(
                f"{self.path} has no backup from before {at}: the oldest one ended at {first}", 2
            )
        return fitting[-1]

    def list_segments(self, first: str) -> list[Path]:
        """Return the write-ahead log from segment `first` on, of all timelines."""
        return sorted(
            path
            for path in self.wal.iterdir()
            if path.suffix == ".history" or (_SEGMENT.match(path.name) and path.name[8:24] >= first[8:24])
            if path.suffix != ".partial" or not path.with_suffix("").exists()
        )

    def remove_older(self, keep: int) -> list[str]:
        """Delete all but the newest `keep` base backups and the log they need. Return the deleted names."""
        backups = self.list_backups()
        for each in backups[:-keep]:
            shutil.rmtree(each)
        needed = set(self.list_segments(read_first_segment(backups[-keep:][0])))
        for path in self.wal.iterdir():
            if path not in needed and _SEGMENT.match(path.name):
                path.unlink()
        return [each.name for each in backups[:-keep]]


def read_end_time(backup: Path) -> datetime:
    """Return when the backup was complete; nothing earlier can be restored from it."""
    return datetime.strptime(backup.name, _NAME).replace(tzinfo=UTC)


def read_first_segment(backup: Path) -> str:
    """Return the oldest segment of the log that the backup needs. Raises RefusedError if it is damaged."""
    try:
        found = _FIRST_SEGMENT.search((backup / "backup_label").read_text())
    except OSError:
        found = None
    if found is None:
        raise RefusedError(f"the backup {backup} is damaged or incomplete: backup_label")
    return found[1]


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    """A file of the data folder. `checksum` is SHA-256 in hex, as `agentchat backup` has them made."""

    path: str
    checksum: str


class _Manifest(msgspec.Struct, frozen=True, rename="pascal"):
    files: list[_File]


def verify(backup: Path) -> None:
    """Compare every file with the manifest (the packaged `pg_verifybackup` ends with a segmentation fault).

    Raises:
        RefusedError: The backup is damaged or incomplete.
    """
    try:
        manifest = msgspec.json.decode((backup / "backup_manifest").read_bytes(), type=_Manifest)
        for each in manifest.files:
            with (backup / each.path).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != each.checksum:
                    raise RefusedError(f"the backup {backup} is damaged or incomplete: {each.path}")
    except (OSError, msgspec.DecodeError) as error:
        raise RefusedError(f"the backup {backup} is damaged or incomplete: {error}") from None
