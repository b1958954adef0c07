"""The process behind `tests.forked`: `python forker.py SOCKET SERVICE MODULE`.

It imports the module of a service, then forks at each request that comes over the socket and tells of each
child that has ended. It has no threads, and a child sees nothing of it: signal handlers, descriptors 1 and 2,
environment and arguments are those of the request.
"""

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from typing import Any


def main() -> None:
    """Return in each child as the service, and in the process itself when the socket is closed."""
    server = socket.socket(fileno=int(sys.argv[1]))
    service, module = sys.argv[2:]
    importlib.import_module(module)
    gc.freeze()
    request = _serve(server, service)
    if request is not None:
        _become(service, request)


def _serve(server: socket.socket, service: str) -> dict[str, Any] | None:
    waker, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    with selectors.DefaultSelector() as selector, waker, woken:
        selector.register(server, selectors.EVENT_READ)
        selector.register(waker, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if waker in ready:
                waker.recv(1024)
                _tell_ended(server, children)
            if server not in ready:
                continue
            size, descriptors, _, _ = socket.recv_fds(server, 4, 2)
            if not size:
                break
            request = _receive(server, int.from_bytes(size, "big"))
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                for number, descriptor in enumerate(descriptors, start=1):
                    os.dup2(descriptor, number)
                    os.close(descriptor)
                return request
            for descriptor in descriptors:
                os.close(descriptor)
            children.add(pid)
            server.sendall(b"forked %d\n" % pid)
    for child in children:
        os.kill(child, signal.SIGKILL)
    return None


def _tell_ended(server: socket.socket, children: set[int]) -> None:
    for child in list(children):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            children.discard(pid)
            server.sendall(b"ended %d %d\n" % (pid, status))


def _receive(server: socket.socket, size: int) -> dict[str, Any]:
    text = b""
    while len(text) < size:
        text += server.recv(size - len(text))
    request: dict[str, Any] = json.loads(text)
    return request


def _become(service: str, request: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]
    if request["code"] is None:
        runpy.run_module(service, run_name="__main__", alter_sys=True)
    else:
        exec(request["code"], {"__name__": "__main__"})


main()
