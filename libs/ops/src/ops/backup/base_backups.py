"""A backup folder: base backups, the write-ahead log since the oldest of them, the run folder's secrets.

base/20261125T210000Z/    a base backup by pg_basebackup, with its manifest
base/….part/              one that was interrupted: never restored, removed by the next
wal/                      segments by pg_receivewal; the newest one ends with .partial
secrets.json              of the run folder: without it sealed secrets cannot be read any more
"""

import hashlib
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ops.errors import RefusedError, SetupError

STAMP = "%Y%m%dT%H%M%SZ"
_SEGMENT = re.compile(r"[0-9A-F]{24}")
_SEGMENT_BYTES = 16 * 1024 * 1024
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
        """Make the folder, closed to other users: it holds everything. Raises SetupError."""
        try:
            for each in (self.path, self.base, self.wal):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(f"the backup folder {self.path} cannot be written: {error.strerror}") from error

    def begin(self, now: datetime) -> Path:
        """Return where a new base backup is made; remove what an interrupted one has left."""
        for left in self.base.glob("*.part"):
            shutil.rmtree(left)
        return self.base / f"{now.strftime(STAMP)}.part"

    def complete(self, made: Path, info: BackupInfo) -> Path:
        """Count it from now on; return its folder."""
        (made / _INFO).write_bytes(msgspec.json.encode(info))
        done = made.with_suffix("")
        made.replace(done)
        return done

    def backups(self) -> list[Path]:
        """Return the complete ones, the newest last."""
        return sorted(path for path in self.base.glob("*Z") if (path / _INFO).exists())

    def choose(self, at: datetime | None) -> Path:
        """Return the newest that ended before `at`. Raises RefusedError if there is none."""
        infos = {each: info_of(each) for each in self.backups()}
        fitting = [
            each for each, info in infos.items() if at is None or datetime.fromisoformat(info.ended_at) <= at
        ]
        if fitting:
            return fitting[-1]
        if at is None:
            raise RefusedError(f"{self.path} has no complete backup", 2)
        first = min((info.ended_at for info in infos.values()), default=None)
        reach = f"the oldest one ended at {first}" if first else "it has none"
        raise RefusedError(f"{self.path} has no backup from before {at.isoformat()}: {reach}", 2)

    def segments(self, first: str) -> list[Path]:
        """Return the write-ahead log from segment `first` on, of all timelines."""
        return sorted(
            path
            for path in self.wal.iterdir()
            if path.suffix == ".history" or (_SEGMENT.match(path.name) and path.name[8:24] >= first[8:24])
            if path.suffix != ".partial" or not path.with_suffix("").exists()
        )

    def remove_older(self, keep: int) -> list[str]:
        """Keep the newest `keep` base backups, and the log since the oldest of them. Return the others."""
        old, kept = self.backups()[:-keep], self.backups()[-keep:]
        for each in old:
            shutil.rmtree(each)
        needed = set(self.segments(info_of(kept[0]).first_segment))
        for path in self.wal.iterdir():
            if path not in needed and _SEGMENT.match(path.name):
                path.unlink()
        return [each.name for each in old]


def info_of(backup: Path) -> BackupInfo:
    """Return what the backup states. Raises RefusedError if it is damaged."""
    try:
        return msgspec.json.decode((backup / _INFO).read_bytes(), type=BackupInfo)
    except (OSError, msgspec.DecodeError) as error:
        raise RefusedError(f"the backup {backup} is damaged: {error}") from error


def now() -> datetime:
    return datetime.now(UTC)


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    """A file of the data folder. `checksum` is SHA-256 in hex, as `agentchat backup` has them made."""

    path: str
    size: int
    checksum: str


class _WalRange(msgspec.Struct, frozen=True):
    """The write-ahead log that the backup needs; a place is `high/low` in hex."""

    timeline: int = msgspec.field(name="Timeline")
    start: str = msgspec.field(name="Start-LSN")
    end: str = msgspec.field(name="End-LSN")

    def segments(self) -> list[str]:
        """Return the names of its segments, 24 hex digits each."""
        places = [[int(half, 16) for half in place.split("/")] for place in (self.start, self.end)]
        first, last = ((high << 32 | low) // _SEGMENT_BYTES for high, low in places)
        return [
            f"{self.timeline:08X}{number >> 8:08X}{number & 0xFF:08X}" for number in range(first, last + 1)
        ]


class _Manifest(msgspec.Struct, frozen=True):
    files: list[_File] = msgspec.field(name="Files")
    ranges: list[_WalRange] = msgspec.field(name="WAL-Ranges")


def verify(backup: Path) -> str:
    """Compare every file with the manifest; return the oldest segment of the log that the backup needs.

    The `pg_verifybackup` of the packaged server ends with a segmentation fault. Source: PostgreSQL 18,
    "Backup Manifest Format".

    Raises:
        RefusedError: The backup is damaged or incomplete.
    """
    try:
        manifest = msgspec.json.decode((backup / "backup_manifest").read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise RefusedError(f"the backup {backup} is damaged or incomplete: {error}") from None
    needed = sorted(name for each in manifest.ranges for name in each.segments())
    wrong = [each.path for each in manifest.files if not _is_whole(backup, each)]
    wrong += [f"pg_wal/{name}" for name in needed if not (backup / "pg_wal" / name).is_file()]
    if wrong:
        raise RefusedError(f"the backup {backup} is damaged or incomplete: {wrong[0]}")
    return needed[0]


def _is_whole(backup: Path, stated: _File) -> bool:
    try:
        with (backup / stated.path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == stated.checksum
    except OSError:
        return False
