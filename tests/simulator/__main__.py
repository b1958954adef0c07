"""`make simulate SEEDS=1000000 FROM=0`: so many histories, on all cores.

The first that breaks a promise is shown, made small.

Exit code 1 if there is one. With SEEDS=1 the whole history of that seed is printed.
"""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from tests.simulator.plan import plan_of
from tests.simulator.search import report_of, search_seeds
from tests.simulator.simulate import run
from tests.simulator.substitutes import substitute_modules

_CHUNK = 500
_TELL_SECONDS = 30.0


def main() -> int:
    """Parse the command line and search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    arguments = parser.parse_args()
    if arguments.seeds == 1:
        return _show(arguments.first)
    return _search(arguments.first, arguments.seeds)


def _show(seed: int) -> int:
    with substitute_modules():
        outcome = run(plan_of(seed), noting=True)
    print(*outcome.history, "", *(outcome.violations or ["nothing is broken"]), sep="\n")
    return 1 if outcome.violations else 0


def _search(first: int, count: int) -> int:
    began = told = time.monotonic()
    done = 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), gc.freeze) as pool:
        for tried, failure in pool.imap_unordered(search_seeds, _chunks(first, count)):
            done += tried
            if failure is not None:
                print(report_of(failure))
                return 1
            now = time.monotonic()
            if now - told >= _TELL_SECONDS:
                told = now
                print(f"{done:,} seeds in {now - began:.0f} s", flush=True)
    seconds = time.monotonic() - began
    print(f"seeds {first} to {first + count - 1}: nothing is broken ({done / seconds:.0f} a second)")
    return 0


def _chunks(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, _CHUNK):
        yield range(start, min(start + _CHUNK, first + count))


if __name__ == "__main__":
    sys.exit(main())
