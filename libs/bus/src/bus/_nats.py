"""Imports nats-py without aiohttp, which it would use for WebSockets alone: 9 MiB less in each process.

To be imported before any other module of this package. Who uses aiohttp otherwise imports it as ever.
"""

import sys

if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        import nats.aio.transport  # noqa: F401
    finally:
        del sys.modules["aiohttp"]
