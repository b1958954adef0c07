"""Ports of the stack: chosen at the start, reserved as long as the stack runs."""

import contextlib
import errno
import random
import socket
import sys
from collections.abc import Sequence

from ops.errors import SetupError

LOOPBACK = "127.0.0.1"
ANY_LOOPBACK = (f"{LOOPBACK}:*", "localhost:*")
"""Where models and webhook endpoints of a stack on this machine may be, in addition to the Internet."""
_TRIES = 200


class Ports:
    """Chooses ports and, on Linux, reserves them while the stack runs.

    A socket that is bound, never listens and has SO_REUSEADDR does not stop a server, which sets the same
    option, from listening there; but the kernel does not choose the port for others. So a process that died
    finds its port free when it is started again. Elsewhere the port is only looked up.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, setting: str, wanted: int, host: str = LOOPBACK) -> int:
        """`wanted` itself, or any free port where it is 0.

        Raises SetupError, naming the `setting`, where the port cannot be had.
        """
        if wanted == 0:
            return self.free(host)
        try:
            self._hold(host, wanted, shared=True)
        except OSError as error:
            reason = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
            raise SetupError(
                f"port {wanted} on {host} {reason}; choose another by {setting} (0: any)"
            ) from error
        return wanted

    def free(self, host: str = LOOPBACK, *, first: int | None = None) -> int:
        """A free port, where there is room below those that the kernel gives to outgoing connections.

        It is `first` where that can be had.
        """
        if first is not None:
            with contextlib.suppress(OSError):
                self._hold(host, first, shared=True)
                return first
        for candidate in _candidates():
            try:
                self._hold(host, candidate, shared=False)
            except OSError:
                continue
            return candidate
        raise SetupError(f"no free port found on {host}")

    def close(self) -> None:
        while self._held:
            self._held.pop().close()

    def _hold(self, host: str, port: int, *, shared: bool) -> None:
        """`shared`: also where connections of an earlier server are still fading (TIME_WAIT).

        Then the option is set before the bind, which another stack's held port would not stop.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        held = socket.socket(family, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shared)
            held.bind((host, port))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError:
            held.close()
            raise
        if sys.platform == "linux":
            self._held.append(held)
        else:
            held.close()


def _candidates() -> Sequence[int]:
    lowest_outgoing = 32768
    if sys.platform == "linux":
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            lowest_outgoing = int(file.read().split()[0])
    low, high = (10000, lowest_outgoing) if lowest_outgoing > 12000 else (20000, 60000)
    return random.sample(range(low, high), _TRIES)
