"""Imports of redis-py what a connection needs, without its commands, clusters and metrics: 7 MiB less.

To be imported before any other module of this package.
"""

from runtime.imports import defer, without

defer("redis", "redis.asyncio")
with without("opentelemetry.sdk"):
    import redis.asyncio.connection  # noqa: F401
