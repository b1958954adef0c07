"""structlog without rich, which it loads for consoles that no service has: 5 MB and 60 ms a process.

It takes rich for not installed; whoever wants rich afterwards finds it.
"""

import sys

_UNLOADED = "rich" not in sys.modules
if _UNLOADED:
    sys.modules["rich"] = None  # type: ignore[assignment]  # the import system's word for "not there"
import structlog  # noqa: E402

if _UNLOADED:
    del sys.modules["rich"]

__all__ = ["structlog"]
