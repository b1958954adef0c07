"""Count the tasks that a service's event loop creates. Loaded into each counted service by PYTHONPATH.

The file `<AGENTCHAT_BENCH_COUNTS>/<process name>` has the number, 64 bits. It is opened with the first task,
since a service is a fork, which gets its name and its environment after this was imported.
"""

import mmap
import os
import struct
import sys
from typing import Any

import uvloop

_create_task, _pack = uvloop.Loop.create_task, struct.Struct("Q").pack_into
_count = 0
_shared: mmap.mmap | None = None


def _open() -> mmap.mmap:
    folder = os.environ.get("AGENTCHAT_BENCH_COUNTS")
    if folder is None or "--name" not in sys.argv:
        return mmap.mmap(-1, 8)
    with open(os.path.join(folder, sys.argv[sys.argv.index("--name") + 1]), "w+b") as file:
        file.truncate(8)
        return mmap.mmap(file.fileno(), 8)


def _create_counted_task(*args: Any, **kwargs: Any) -> Any:
    global _count, _shared
    _shared = _shared or _open()
    _count += 1
    _pack(_shared, 0, _count)
    return _create_task(*args, **kwargs)


uvloop.Loop.create_task = _create_counted_task  # type: ignore[method-assign]
