"""Find free ports on this machine.

`python ports.py` checks the port of `make run` before anything is installed, so this module imports the
standard library only.
"""

import itertools
import os
import socket
import sys

LOOPBACK = "127.0.0.1"
ANY_LOOPBACK = (f"{LOOPBACK}:*", "localhost:*")
"""Where models and webhook endpoints of a stack on this machine may be, in addition to the Internet."""
GATEWAY_PORT = 8080
_FIRST, _BLOCKS, _BLOCK = 10_000, 355, 64
"""Blocks of ports below 32768, where the kernel chooses none for outgoing connections."""
_NEXT_BLOCK = 177
"""A process whose block is used up goes on so many blocks further, far from those of the next process ids."""
_next = itertools.count()


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return True if a server may listen on the port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen()
        except OSError:
            return False
    return True


def find_free_port(host: str = LOOPBACK, *, preferred: int | None = None) -> int:
    """Return a free port; `preferred` if it is free.

    Each process takes its ports from a block of its own, by its id, so that processes that choose at the same
    time do not choose the same ones. A process that needs more goes on to another block: nothing may listen
    yet on the ports that it was given before.
    """
    if preferred is not None and is_free(preferred, host):
        return preferred
    for _ in range(_BLOCKS * _BLOCK):
        full_blocks, offset = divmod(next(_next), _BLOCK)
        block = (os.getpid() + full_blocks * _NEXT_BLOCK) % _BLOCKS
        port = _FIRST + block * _BLOCK + offset
        if is_free(port, host):
            return port
    raise OSError(f"no free port from {_FIRST} to {_FIRST + _BLOCKS * _BLOCK - 1} on {host}")


def _check_port_of_run() -> str | None:
    """Return an error message if the port of the environment is in use."""
    wanted = os.environ.get("AGENTCHAT_PORT", "").strip()
    host = os.environ.get("AGENTCHAT_HOST", "").strip() or LOOPBACK
    if not wanted.isdigit() or int(wanted) == 0 or is_free(int(wanted), host):
        return None  # `agentchat up` checks the form
    return f"port {wanted} on {host} is in use; set AGENTCHAT_PORT to another (0: any free port)"


if __name__ == "__main__":
    sys.exit(_check_port_of_run())
