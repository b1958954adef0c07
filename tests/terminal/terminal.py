"""The command on a pseudo-terminal, and somebody who types and looks."""

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

from tests.terminal.emulator import Emulator

SECONDS = 30.0
CTRL_C = "\x03"
CTRL_D = "\x04"
ALT_ENTER = "\x1b\r"
UP = "\x1b[A"

# The command, with its standard input as the terminal from which Ctrl-C comes.
_START = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("ops.main", run_name="__main__", alter_sys=True)
"""
_SEQUENCES = re.compile(r"\x1b\[[?>=]?[\d;]*[A-Za-z]|\x1b[=>78]")


def surroundings(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a client: nothing of ours is inherited."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTCHAT_", "XDG_"))}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        kept.pop(name, None)
    ours = {
        "TERM": "xterm-256color",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "XDG_STATE_HOME": str(folder),
        "NO_PROXY": "127.0.0.1",
        "AGENTCHAT_RUN_DIR": str(folder / "nothing-runs-here"),
    }
    return kept | ours | dict(environ)


class Terminal:
    """`agentchat` with these arguments, as a context; it is killed at its end if it still runs."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        arguments: Sequence[str] = ("chat",),
        *,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._environ = surroundings(folder, environ)
        self._arguments = arguments
        self._emulator = Emulator(columns, rows)
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self.raw = ""
        self._bytes = b""
        self._seen = 0

    def __enter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, self._size)
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
        """All that one can scroll back to, and the screen."""
        return self._emulator.text

    @property
    def odd(self) -> list[str]:
        """What drove the terminal and should not have."""
        return self._emulator.odd

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def say(self, message: str) -> None:
        """Type it, and Enter."""
        self.see("> ")
        self.type(message)
        self.see(message.splitlines()[-1])
        self.type("\r")

    def see(self, text: str) -> None:
        """Wait until `text` has been written since what was seen last. The output is taken without its
        control sequences. Raises AssertionError."""
        end = time.monotonic() + SECONDS
        while (place := self._plain().find(text, self._seen)) < 0:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} is not shown after {self._seen} in:\n{self._plain()}")
        self._seen = place + len(text)

    def end(self) -> int:
        """Wait for the client's end; its exit code."""
        end = time.monotonic() + SECONDS
        while self._read(end - time.monotonic()):
            pass
        return self.process.wait(SECONDS)

    def _plain(self) -> str:
        return plain(self.raw)

    def _read(self, seconds: float) -> bool:
        """Whether something came; not at the end, nor after `seconds`."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, seconds))
        try:
            data = os.read(self._ours, 65536) if ready else b""
        except OSError:  # Linux says so at the end of a pseudo-terminal
            return False
        text, self._bytes = _decoded(self._bytes + data)
        self.raw += text
        self._emulator.feed(text)
        return bool(data)


def plain(raw: str) -> str:
    """What was written, without sequences that only move or colour; lines joined by a blank."""
    return re.sub(r"\s*\n\s*", " ", _SEQUENCES.sub("", raw).replace("\r", ""))


def _decoded(data: bytes) -> tuple[str, bytes]:
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode(), data[len(data) - cut :]
        except UnicodeDecodeError:
            continue
    raise AssertionError(f"not UTF-8: {data!r}")
