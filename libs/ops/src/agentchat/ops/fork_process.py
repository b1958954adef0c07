"""Fork services on request: the process of `fork_server`."""

import contextlib
import ctypes
import gc
import os
import pkgutil
import runpy
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import BinaryIO

import msgspec
from setproctitle import setproctitle

_PR_SET_PDEATHSIG = 1


class ForkRequest(msgspec.Struct, frozen=True):
    """A line to the server: the process to fork, as in `Process`."""

    argv: tuple[str, ...]
    env: dict[str, str]
    log: str


class ForkReport(msgspec.Struct, frozen=True):
    """A line from the server: a fork has started, in the order of the requests; or ended, with its code."""

    pid: int
    code: int | None = None


def serve_forks(preloaded: Sequence[str]) -> None:
    """Prepare what forks share, then fork for each line of stdin, and report on stdout, until stdin ends.

    Args:
        preloaded: Names of modules to import, and of functions (`module:function`) to call once.
    """
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for name in preloaded:
        with contextlib.suppress(Exception):  # the service that needs it says so in its log
            if callable(found := pkgutil.resolve_name(name)):
                found()
    gc.collect()
    gc.freeze()  # so that no collection of a fork touches what it shares
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    received = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_ends(reports)
        if 0 in ready:
            if not (chunk := os.read(0, 65536)):
                return
            *lines, received = (received + chunk).split(b"\n")
            for line in lines:
                pid = _fork(msgspec.json.decode(line, type=ForkRequest))
                reports.write(msgspec.json.encode(ForkReport(pid)) + b"\n")


def _report_ends(reports: BinaryIO) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        reports.write(msgspec.json.encode(ForkReport(pid, code)) + b"\n")


def _fork(request: ForkRequest) -> int:
    """Return the fork's process id; the fork does not return."""
    server = os.getpid()
    if pid := os.fork():
        return pid
    code: object = 1
    try:
        _run_module(request, server)
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001 - the outermost frame of the fork
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _run_module(request: ForkRequest, server: int) -> None:
    """Become the process that runs `python -m MODULE ARGUMENT...`, as `process.spawn` would start it."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != server:  # which ended before it could be watched
        return
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, file in ((0, nothing), (1, log), (2, log)):
        os.dup2(file, number)
    os.closerange(3, log + 1)
    setproctitle(" ".join(request.argv))  # it looks for its place by the environment
    os.environ.clear()
    os.environ.update(request.env)
    _, _, module, *arguments = request.argv
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve_forks(sys.argv[1:])
