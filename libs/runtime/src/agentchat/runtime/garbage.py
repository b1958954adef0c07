"""How often Python looks for reference cycles: a full look stops a process for as long as its heap is large.

With Python's own thresholds a gateway to which 7,000 clients connected stood still for 0.15 to 0.3 s several
times, and every stream with it. What was imported and opened at the start is left out, and a full look
comes so rarely that it costs a long-lived process next to nothing.
"""

import gc

_THRESHOLDS = (2_000, 10, 25)
"""Objects until the young are looked at, 3 ms each tenth time; all after half a million, about 50 MB."""


def settle() -> None:
    """The process is ready: what it holds now it holds to its end."""
    gc.set_threshold(*_THRESHOLDS)
    gc.collect()
    gc.freeze()
