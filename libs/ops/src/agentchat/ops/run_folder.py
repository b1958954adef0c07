"""Manage the run folder: everything that a stack stores, and the lock that one stack holds on it."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from agentchat.ops.errors import SetupError

VARIABLE = "AGENTCHAT_RUN_DIR"
_LOCK_SECONDS = 0.5


class RunFolder:
    """A run folder, by its absolute path."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.demo_env = self.path / "demo.env"
        self.secrets = self.path / "secrets.json"
        self.processes = self.path / "processes.json"
        self.files = self.path / "files"
        self.logs = self.path / "logs"
        self.nats = self.path / "nats"
        self.postgres = self.path / "postgres"
        self.valkey = self.path / "valkey"

    def log(self, name: str) -> Path:
        """Return the path of a process's log."""
        return self.logs / f"{name}.log"

    def create(self) -> None:
        """Create the folder; other users may pass through it, but can open nothing in it.

        Raises:
            SetupError: It cannot be created or written.
        """
        try:
            self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
            for inner in (self.files, self.logs, self.nats, self.valkey):
                inner.mkdir(mode=0o700, exist_ok=True)
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise SetupError(
                f"the run folder {self.path} cannot be written: {error.strerror}; set {VARIABLE} to another"
            ) from error

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for one stack. Raises SetupError if another stack holds it.

        The lock is on the folder itself and ends with the process, so nothing has to be removed.
        """
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            if not _lock(descriptor, _LOCK_SECONDS):
                raise SetupError(
                    f"a stack already runs in {self.path}; stop it, or set {VARIABLE} to another folder"
                )
            yield
        finally:
            os.close(descriptor)

    def is_in_use(self) -> bool:
        """Return True if a stack holds the folder now."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _lock(descriptor, 0)
        finally:
            os.close(descriptor)

    def begin_log(self, name: str) -> None:
        """Start a new log for `name`; the previous one is kept as `<name>.log.1`."""
        log = self.log(name)
        with contextlib.suppress(FileNotFoundError):
            log.replace(log.with_name(log.name + ".1"))


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically; only its owner can read it."""
    new = path.with_name(path.name + ".new")
    with open(new, "wb", opener=_open_private) as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    new.replace(path)


def _open_private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def _lock(descriptor: int, seconds: float) -> bool:
    """Try to lock for `seconds`: `is_in_use` of another process holds the lock for an instant."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)
        else:
            return True
