"""Loopback ports for servers that tests start, held while this process lives: nobody else is given one."""

import atexit
from functools import cache

from ops.ports import Ports


def free_port() -> int:
    """A port that only a server which sets SO_REUSEADDR can listen on, as all of ours do."""
    return _ports().free()


@cache
def _ports() -> Ports:
    ports = Ports()
    atexit.register(ports.close)
    return ports
