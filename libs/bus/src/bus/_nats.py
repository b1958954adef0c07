"""Imports nats-py without aiohttp, which it would use for WebSockets alone: 9 MiB less in each process.

To be imported before any other module of this package.
"""

from runtime.imports import without

with without("aiohttp"):
    import nats.aio.transport  # noqa: F401
