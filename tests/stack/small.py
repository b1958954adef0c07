"""Small processes for tests of the supervisor, and a report that remembers."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from agentchat.ops.free_ports import find_free_port
from agentchat.ops.probes import HttpProbe
from agentchat.ops.process import Process
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.stack_report import Report

_ANSWER = """
import os, signal, socket, sys
if os.path.exists(sys.argv[2] + ".broken"):
    sys.exit(3)
port, stop_file = int(sys.argv[1]), sys.argv[2]

def stop(*_):
    with open(stop_file, "a") as file:
        file.write(sys.argv[3] + "\\n")
    sys.exit(0)

signal.signal(signal.SIGTERM, STOP)
print("hello from", sys.argv[3], flush=True)
with socket.create_server(("127.0.0.1", port)) as server:
    while True:
        connection, _ = server.accept()
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
        connection.close()
"""


def server(folder: RunFolder, name: str, *, rank: int = 0, deaf: bool = False) -> Process:
    """Answers its probe. On SIGTERM it adds its name to the file `stopped`; a deaf one does nothing.

    While there is a file `stopped.broken` it cannot start.
    """
    port = find_free_port()
    code = _ANSWER.replace("STOP", "signal.SIG_IGN" if deaf else "stop")
    arguments = (str(port), str(folder.path / "stopped"), name)
    return _process(folder, name, code, arguments, HttpProbe(port), rank)


def job(folder: RunFolder, name: str, code: str, after: Sequence[str] = ()) -> Process:
    return _process(folder, name, code, (), None, 9, tuple(after))


def make_dying_process(folder: RunFolder, name: str, code: str) -> Process:
    """A process that should serve, and ends."""
    return _process(folder, name, code, (), HttpProbe(1), 0)


def _process(
    folder: RunFolder,
    name: str,
    code: str,
    arguments: Sequence[str],
    probe: HttpProbe | None,
    rank: int,
    after: tuple[str, ...] = (),
) -> Process:
    return Process(
        name=name,
        argv=(sys.executable, "-I", "-S", "-c", code, *arguments, "--run-dir", str(folder.path)),
        env=dict(os.environ),
        log=folder.log(name),
        probe=probe,
        after=after,
        stop_rank=rank,
        stop_signal=signal.SIGTERM,
        stop_seconds=0.5,
    )


class Remembering(Report):
    """Keeps what it is told. `deaths` are (name, how, pause)."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.deaths: list[tuple[str, str, float | None]] = []

    def report_end(self, name: str, how: str, log: Path, offset: int, again_in: float | None) -> None:
        self.deaths.append((name, how, again_in))
        super().report_end(name, how, log, offset, again_in)

    def note(self, text: str) -> None:
        self.notes.append(text)
