"""The manifest of a base backup: what it consists of (https://www.postgresql.org/docs/18/backup-manifest-format.html).

It is checked here because the `pg_verifybackup` of the packaged server ends with a segmentation fault.
"""

import hashlib
from pathlib import Path

import msgspec

from ops.errors import RefusedError

MANIFEST = "backup_manifest"
_SEGMENT_BYTES = 16 * 1024 * 1024


class ManifestFile(msgspec.Struct, frozen=True, rename="pascal"):
    """A file of the data folder. `checksum` is SHA-256 in hex, as `agentchat backup` has them made."""

    size: int
    checksum: str
    path: str | None = None
    encoded_path: str | None = None
    """In hex, where the path is not UTF-8."""

    @property
    def place(self) -> str:
        """The path within the data folder."""
        return self.path or bytes.fromhex(self.encoded_path or "").decode(errors="surrogateescape")


class WalRange(msgspec.Struct, frozen=True):
    """What of the write-ahead log the backup needs; a place is `high/low` in hex."""

    timeline: int = msgspec.field(name="Timeline")
    start: str = msgspec.field(name="Start-LSN")
    end: str = msgspec.field(name="End-LSN")

    @property
    def segments(self) -> list[str]:
        """The names of its segments, 24 hex digits each."""
        first, last = (_segment(place) for place in (self.start, self.end))
        return [
            f"{self.timeline:08X}{number >> 8:08X}{number & 0xFF:08X}" for number in range(first, last + 1)
        ]


class Manifest(msgspec.Struct, frozen=True):
    """The parts of it that are checked."""

    files: list[ManifestFile] = msgspec.field(name="Files")
    ranges: list[WalRange] = msgspec.field(name="WAL-Ranges")
    checksum: str = msgspec.field(name="Manifest-Checksum")

    @property
    def first_segment(self) -> str:
        """The oldest that the backup needs."""
        return min(self.ranges[0].segments)


def verify(backup: Path) -> Manifest:
    """Compare every file with the manifest. Raises RefusedError where the backup is damaged or incomplete."""
    try:
        text = (backup / MANIFEST).read_bytes()
        manifest = msgspec.json.decode(text, type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise RefusedError(f"the backup {backup} is damaged or incomplete: {error}") from None
    stated = text[: text.rindex(b'"Manifest-Checksum"')]
    wrong = None if hashlib.sha256(stated).hexdigest() == manifest.checksum else MANIFEST
    wrong = wrong or next((each.place for each in manifest.files if not _is_whole(backup, each)), None)
    wrong = wrong or next(
        (
            f"pg_wal/{name}"
            for found in manifest.ranges
            for name in found.segments
            if not (backup / "pg_wal" / name).is_file()
        ),
        None,
    )
    if wrong:
        raise RefusedError(f"the backup {backup} is damaged or incomplete: {wrong}")
    return manifest


def _is_whole(backup: Path, stated: ManifestFile) -> bool:
    try:
        with (backup / stated.place).open("rb") as file:
            return (
                file.seek(0, 2) == stated.size
                and not file.seek(0)
                and hashlib.file_digest(file, "sha256").hexdigest() == stated.checksum
            )
    except OSError:
        return False


def _segment(place: str) -> int:
    high, _, low = place.partition("/")
    return (int(high, 16) << 32 | int(low, 16)) // _SEGMENT_BYTES
