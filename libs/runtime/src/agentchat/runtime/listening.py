"""The listening socket of a process, web service or worker, and the names it is called by."""

import errno
import re
import socket
import sys

from agentchat.runtime.settings import SettingsError

_USER_TIMEOUT_MS = 15_000
_BACKLOG = 2048
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def listening_socket(host: str, port: int) -> socket.socket:
    """A bound, listening TCP socket. What it sets, each accepted connection has from it.

    A peer that acknowledges nothing for 15 s is dropped (Linux): a server would wait for it without end.
    Raises SettingsError where the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise SettingsError(f"cannot listen on {host}:{port}: {reason}") from None
    listener.setblocking(False)
    return listener


def is_loopback(host: str) -> bool:
    """Whether the header Host of a request calls this machine by a loopback name or address.

    A page of another site whose name was made to resolve to 127.0.0.1 (DNS rebinding) has its own name there.
    """
    return _LOOPBACK.fullmatch(host) is not None
