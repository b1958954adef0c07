"""A service whose wall clock is off: `python -m tests.chaos.wall_clock FILE MODULE ...` runs MODULE so.

FILE holds by how many seconds, and is asked at each look at the clock: the time may jump at any moment. What
is shifted is the module `time`; that our code does not ask `datetime` is a rule of the linter.
"""

import mmap
import os
import runpy
import struct
import sys
import time
from pathlib import Path

_OFFSET = struct.Struct("<d")


def set_offset(file: Path, seconds: float) -> None:
    """Let the clocks that are read from `file` be off by so much from now on."""
    file.parent.mkdir(exist_ok=True)
    with open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as opened:
        opened.write(_OFFSET.pack(seconds))


def shift(file: Path) -> None:
    """Shift this process' wall clock; monotonic clocks stay as they are."""
    with file.open("rb") as opened:
        offset = mmap.mmap(opened.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    real = time.time, time.time_ns

    def seconds() -> float:
        return float(_OFFSET.unpack(offset)[0])

    time.time = lambda: real[0]() + seconds()
    time.time_ns = lambda: real[1]() + int(seconds() * 1e9)


if __name__ == "__main__":
    del sys.argv[0]
    shift(Path(sys.argv.pop(0)))
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
