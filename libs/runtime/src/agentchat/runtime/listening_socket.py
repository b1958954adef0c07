"""Open the listening socket of a process, and recognise its loopback names."""

import errno
import re
import socket
import sys

from agentchat.runtime.settings import SettingsError

_USER_TIMEOUT_MS = 15_000
_BACKLOG = 2048
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def open_listening_socket(host: str, port: int) -> socket.socket:
    """Return a bound, listening TCP socket. Accepted connections inherit its options.

    A peer that acknowledges nothing for 15 s is dropped (Linux), since a server would wait for it for ever.

    Raises:
        SettingsError: The address cannot be bound.
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
    """Return True if a Host header names this machine by a loopback name or address.

    A page whose name was made to resolve to 127.0.0.1 (DNS rebinding) sends its own name instead.
    """
    return _LOOPBACK.fullmatch(host) is not None
