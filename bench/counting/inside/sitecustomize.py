"""Count the tasks that a service's event loop creates. Loaded into each counted service by PYTHONPATH.

The file `<AGENTCHAT_BENCH_COUNTS>/<process name>` has the number, 64 bits.
"""

import contextlib
import mmap
import os
import struct
import sys
from typing import Any


def _count(folder: str, process: str) -> None:
    import uvloop

    with open(os.path.join(folder, process), "w+b") as file:
        file.truncate(8)
        shared = mmap.mmap(file.fileno(), 8)
    pack, create_task, count = struct.Struct("Q").pack_into, uvloop.Loop.create_task, 0

    def create_counted_task(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        pack(shared, 0, count)
        return create_task(*args, **kwargs)

    uvloop.Loop.create_task = create_counted_task  # type: ignore[method-assign]


if folder := os.environ.get("AGENTCHAT_BENCH_COUNTS"):
    with contextlib.suppress(ValueError):
        _count(folder, sys.orig_argv[sys.orig_argv.index("--name") + 1])
