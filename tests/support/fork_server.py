"""The process that forks one service: `python -m tests.support.fork_server FOLDER SERVICE MODULE...`.

It listens on FOLDER/SERVICE.sock and imports the modules. Each request over a connection forks a child; a
line reports the child's id, a later line its end. When a connection closes, its children get the signal that
their request names. The server ends when the owner of FOLDER/alive has ended (see `tests.support.forked`).

It has no threads. A child has the environment, arguments, working folder and descriptors 1 and 2, or 0 to 2,
of its request, and a session of its own.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def main() -> None:
    """Return in each child after it has run, and in the server itself at its end."""
    folder, service, *modules = sys.argv[1:]
    alive = os.open(Path(folder, "alive"), os.O_RDONLY | os.O_NONBLOCK)
    waits, listens = os.pipe()
    if os.fork():  # the starter may connect when this process has ended
        os.close(listens)
        os.read(waits, 1)
        return
    os.setsid()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(Path(folder, f"{service}.sock")))
    listener.listen(32)
    os.close(waits)
    os.close(listens)
    for module in modules:
        importlib.import_module(module)
    gc.freeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the starting shell may ignore it
    request = _Server(listener, alive).serve()
    if request is not None:
        _run(request)


class _Server:
    def __init__(self, listener: socket.socket, alive: int) -> None:
        self._listener = listener
        self._alive = alive
        self._waker, self._woken = socket.socketpair()
        self._connections: set[socket.socket] = set()
        self._children: dict[int, tuple[socket.socket, int]] = {}
        """By process id: the connection that asked for it, and the signal for when that closes."""
        self._selector = selectors.DefaultSelector()

    def serve(self) -> dict[str, Any] | None:
        """The request in a child; None at the end."""
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._woken.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for each in (self._listener, self._waker, self._alive):
            self._selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._waker:
                    self._waker.recv(1024)
                    self._report_ends()
                elif key.fileobj == self._alive:
                    self._signal_all(self._children, signal.SIGKILL)
                    return None
                elif key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    self._connections.add(connection)
                    self._selector.register(connection, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket) and (request := self._read(key.fileobj)):
                    return request

    def _read(self, connection: socket.socket) -> dict[str, Any] | None:
        """Fork for one request; it is returned in the child."""
        size, descriptors = b"", list[int]()
        with contextlib.suppress(ConnectionResetError):  # closed before it has read all that was sent
            size, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        if not size:
            self._close(connection)
            return None
        request: dict[str, Any] = json.loads(_exactly(connection, int.from_bytes(size, "big")))
        if (pid := os.fork()) == 0:
            self._become_child(descriptors)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        self._children[pid] = (connection, request["death_signal"])
        self._send(connection, f"forked {pid}\n")
        return None

    def _become_child(self, descriptors: list[int]) -> None:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        os.close(self._alive)
        for each in (self._listener, self._waker, self._woken, *self._connections):
            each.close()
        for number, descriptor in enumerate(descriptors, start=3 - len(descriptors)):
            os.dup2(descriptor, number)
            os.close(descriptor)

    def _close(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        self._connections.remove(connection)
        connection.close()
        for pid, (asked_by, number) in self._children.items():
            if asked_by is connection:
                self._signal_all([pid], number)

    def _report_ends(self) -> None:
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                connection, _ = self._children.pop(pid)
                self._send(connection, f"ended {pid} {status}\n")

    def _send(self, connection: socket.socket, line: str) -> None:
        with contextlib.suppress(OSError):  # its process has ended
            connection.sendall(line.encode())

    def _signal_all(self, pids: Iterable[int], number: int) -> None:
        for pid in pids:
            os.kill(pid, number)


def _exactly(connection: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        read += connection.recv(size - len(read))
    return read


def _run(request: dict[str, Any]) -> None:
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]
    if request["code"] is None:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    else:
        exec(request["code"], {"__name__": "__main__"})


main()
