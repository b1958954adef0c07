"""Where the files of the archive are: a folder. Another store has the same four methods."""

import os
from pathlib import Path

_PARTIAL = ".partial"


class FolderStore:
    """Files in a folder, which is made; its owner alone can read them. Calls block, and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, data: bytes) -> None:
        """Store a file. It has its name once all of it is on the disk."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self._folder / f".{name}{_PARTIAL}"
        with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises FileNotFoundError."""
        return (self._folder / name).read_bytes()

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._folder / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Of all files that are complete."""
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if path.suffix != _PARTIAL)
