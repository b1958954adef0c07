"""How much memory Python takes at most within a block."""

import contextlib
import tracemalloc
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def peak_bytes() -> Iterator[Callable[[], int]]:
    """Yields a function that tells the peak, in bytes, over what was held at the beginning."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    peak = 0

    def told() -> int:
        return peak

    try:
        yield told
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
