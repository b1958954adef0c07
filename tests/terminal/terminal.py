"""`agentchat` on a pseudo-terminal, driven by what a person types and sees."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 30.0
CTRL_C = "\x03"
CTRL_D = "\x04"

# The command, with its standard input as the terminal from which Ctrl-C comes.
_START = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("agentchat.ops.main", run_name="__main__", alter_sys=True)
"""
_SEQUENCES = re.compile(r"\x1b\[[?>=]?[\d;]*[A-Za-z]|\x1b[=>78]")


def surroundings(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a client; nothing of ours is inherited."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    ours = {
        "TERM": "xterm-256color",
        "NO_PROXY": "127.0.0.1",
        "AGENTCHAT_RUN_DIR": str(folder / "nothing-runs-here"),
    }
    return kept | ours | dict(environ)


class Terminal:
    """The command as a context; it is killed at its end if it still runs."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], arguments: Sequence[str] = ("chat",)
    ) -> None:
        self._arguments = arguments
        self._environ = surroundings(folder, environ)
        self._raw = b""
        self._seen = 0

    def __enter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *self._arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self._environ,
            start_new_session=True,
        )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)
        os.close(self._ours)

    @property
    def text(self) -> str:
        """What was written, without sequences that only move or colour; lines joined by a blank."""
        plain = _SEQUENCES.sub("", self._raw.decode(errors="ignore")).replace("\r", "")
        return re.sub(r"\s*\n\s*", " ", plain)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def say(self, message: str) -> None:
        """Wait for the prompt, and type the message and Enter."""
        self.see("> ")
        self.type(f"{message}\r")
        self.see(message)

    def see(self, text: str) -> None:
        """Wait until `text` was written after what was seen last. Raises AssertionError."""
        end = time.monotonic() + SECONDS
        while (place := self.text.find(text, self._seen)) < 0:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} is not shown after {self._seen} in:\n{self.text}")
        self._seen = place + len(text)

    def end(self) -> int:
        """Wait for the client's end; return its exit code."""
        end = time.monotonic() + SECONDS
        while self._read(end - time.monotonic()):
            pass
        return self.process.wait(SECONDS)

    def _read(self, seconds: float) -> bool:
        """Return False at the end, and after `seconds` without output."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, seconds))
        try:
            data = os.read(self._ours, 65536) if ready else b""
        except OSError:  # Linux reports the end of a pseudo-terminal so
            return False
        self._raw += data
        return bool(data)
