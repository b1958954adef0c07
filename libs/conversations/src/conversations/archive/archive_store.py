"""Where the files of the archive are: a folder. Another store has the same five methods."""

import errno
import os
from pathlib import Path

_PARTIAL = ".partial"


class FolderStore:
    """Files in a folder, which is made; its owner alone can read them. Calls block, and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self) -> None:
        """Make the folder, where it is missing. Raises OSError where no file can be stored there."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self._folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

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

    def delete(self, beginning: str, *, but: str | None = None) -> int:
        """Remove all files whose names begin so, and what a process that was killed has left of them.

        Returns how many were complete.
        """
        complete = 0
        for path in self._folder.iterdir():
            if path.name.lstrip(".").startswith(beginning) and path.name != but:
                path.unlink(missing_ok=True)
                complete += path.suffix != _PARTIAL
        return complete

    def names(self) -> list[str]:
        """Of all files that are complete."""
        return sorted(path.name for path in self._folder.iterdir() if path.suffix != _PARTIAL)
