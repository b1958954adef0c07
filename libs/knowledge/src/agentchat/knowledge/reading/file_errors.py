"""Define the result of reading a file, why one cannot be read, and how much text it may have."""

import zipfile
from typing import NamedTuple

MOST_CHARACTERS = 16_000_000
"""The longest text of a file or document."""

MOST_UNPACKED = 256 * 1024 * 1024
MOST_PARTS = 10_000


class ConvertedFile(NamedTuple):
    """A file's text as HTML; `warnings` tell the person who imports it what could not be read."""

    html: str
    warnings: tuple[str, ...] = ()


class UnreadableFile(Exception):  # noqa: N818 - reads as the condition it is
    """A file cannot be read.

    `reason` continues a sentence that begins with the file's name: "is encrypted".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def refuse_swollen(archive: zipfile.ZipFile) -> None:
    """Raise UnreadableFile if the archive has too many parts, or they unpack to too much."""
    parts = archive.infolist()
    if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_UNPACKED:
        raise UnreadableFile(f"unpacks to more than {MOST_UNPACKED // 1024**2} MiB, or {MOST_PARTS:,} parts")
