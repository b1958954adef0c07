"""A service whose asyncio tasks can be counted: `python -m tests.chaos.counted MODULE ...` runs the module.

At SIGUSR1 it writes their number to the file that CHAOS_TASKS names.
"""

import asyncio
import os
import runpy
import signal
import sys
from pathlib import Path

VARIABLE = "CHAOS_TASKS"


def _count(*_: object) -> None:
    path = Path(os.environ[VARIABLE])
    new = path.with_suffix(".new")
    new.write_text(str(sum(not task.done() for task in tuple(asyncio.tasks._all_tasks))))  # type: ignore[attr-defined]
    new.replace(path)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _count)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
