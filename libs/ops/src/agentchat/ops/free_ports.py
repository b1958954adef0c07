"""Find free ports on this machine.

`python free_ports.py` checks the port of `make run` before anything is installed, so this module imports the
standard library only.
"""

import fcntl
import itertools
import os
import socket
import sys
import tempfile
from pathlib import Path

LOOPBACK = "127.0.0.1"
ANY_LOOPBACK = (f"{LOOPBACK}:*", "localhost:*")
"""The hosts, besides the Internet, of models and webhook endpoints for a stack on this machine."""
GATEWAY_PORT = 8080
_FIRST, _BLOCKS, _BLOCK = 10_000, 355, 64
"""Blocks of ports below 32768, where the kernel chooses none for outgoing connections."""
_NEXT_BLOCK = 177
"""How many blocks further a process looks for the next one, far from those of the next process ids."""
_offsets = itertools.count()
_claimed: list[tuple[int, int]] = []
"""The blocks of this process, each with the file descriptor that holds its lock until the process ends."""


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

    Each process takes its ports from blocks that it has claimed, so that processes that choose at the same
    time do not choose the same ones. A port is given once: nothing may listen on it yet.
    """
    if preferred is not None and is_free(preferred, host):
        return preferred
    for _ in range(_BLOCKS * _BLOCK):
        full_blocks, offset = divmod(next(_offsets), _BLOCK)
        if full_blocks == len(_claimed):
            _claimed.append(_claim_block())
        port = _FIRST + _claimed[full_blocks][0] * _BLOCK + offset
        if is_free(port, host):
            return port
    raise OSError(f"no free port from {_FIRST} to {_FIRST + _BLOCKS * _BLOCK - 1} on {host}")


def _claim_block() -> tuple[int, int]:
    """Lock the file of a block that no process has. Raises OSError if all are taken."""
    for step in range(_BLOCKS):
        block = (os.getpid() + step * _NEXT_BLOCK) % _BLOCKS
        path = Path(tempfile.gettempdir()) / f"agentchat-ports-{os.getuid()}-{block}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            continue
        return block, descriptor
    raise OSError("all blocks of ports are taken by other processes")


def _check_port_of_run() -> str | None:
    """Return an error message if the port of the environment is in use."""
    wanted = os.environ.get("AGENTCHAT_PORT", "").strip()
    host = os.environ.get("AGENTCHAT_HOST", "").strip() or LOOPBACK
    if not wanted.isdigit() or int(wanted) == 0 or is_free(int(wanted), host):
        return None  # `agentchat up` checks the form
    return f"port {wanted} on {host} is in use; set AGENTCHAT_PORT to another (0: any free port)"


if __name__ == "__main__":
    sys.exit(_check_port_of_run())
