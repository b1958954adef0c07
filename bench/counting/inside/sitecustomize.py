"""In each service of a stack that is counted, by PYTHONPATH: how often its event loop is used.

The file `<AGENTCHAT_BENCH_COUNTS>/<process name>` has one 64-bit number for each of `NAMES`.
"""

import contextlib
import mmap
import os
import struct
import sys
from typing import Any

NAMES = {"create_task": "tasks", "call_soon": "callbacks", "call_later": "timers", "create_future": "futures"}
"""Methods of the loop, of which `call_at` ends in `call_later`, and what they are counted as."""


def _count(folder: str, process: str) -> None:
    import uvloop

    path = os.path.join(folder, process)
    with open(path, "w+b") as file:
        file.truncate(8 * len(NAMES))
        shared = mmap.mmap(file.fileno(), 8 * len(NAMES))
    for place, name in enumerate(NAMES):
        setattr(uvloop.Loop, name, _counted(getattr(uvloop.Loop, name), shared, 8 * place))


def _counted(method: Any, shared: mmap.mmap, offset: int) -> Any:
    pack = struct.Struct("Q").pack_into
    count = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        pack(shared, offset, count)
        return method(*args, **kwargs)

    return counted


if folder := os.environ.get("AGENTCHAT_BENCH_COUNTS"):
    with contextlib.suppress(ValueError):
        _count(folder, sys.orig_argv[sys.orig_argv.index("--name") + 1])
