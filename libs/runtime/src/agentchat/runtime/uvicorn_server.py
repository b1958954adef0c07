"""Serve an ASGI application with uvicorn: our socket, our signals, one bounded way to stop."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agentchat.runtime import garbage_collection, logs
from agentchat.runtime.listening_socket import open_listening_socket
from agentchat.runtime.retry_loops import wait_for_event

if TYPE_CHECKING:
    import uvicorn

_TICK_SECONDS = 1.0
_ACCEPT_SECONDS = 0.05
"""The time that connections, accepted as the stop came, may take until uvicorn knows them."""

_OPEN_MAX = 10_240
"""The most that macOS accepts, though it reports no bound: setrlimit(2), OPEN_MAX in sys/syslimits.h."""

_OTHER_FILES = 256
"""Files for libraries, logs and connections to servers."""


async def serve(
    app: Any,
    host: str,
    port: int,
    stop: asyncio.Event,
    *,
    on_stop: Callable[[], Awaitable[None]] | None = None,
    grace_s: float = 9.0,
    http: str = "httptools",
    max_connections: int | None = None,
) -> None:
    """Serve `app` on host:port (0: any free port, which is logged) until `stop` is set.

    Then accept no new connection, and run `on_stop()` next to the open responses, which it should bring to an
    end. Responses that last longer than `grace_s` (whole seconds, from the stop on) are cancelled. `http` is
    uvicorn's parser. Beyond `max_connections` a request gets 503.

    Raises:
        SettingsError: The address cannot be bound.
        RuntimeError: The application did not start.
    """
    listener = open_listening_socket(host, port)
    try:
        server = await _start(app, listener, grace_s, http, max_connections)
        garbage_collection.freeze_heap()
        logs.get_logger("web").info("listening", host=host, port=listener.getsockname()[1])
        await _tick_until(stop, server)
        ending = asyncio.create_task(_shut_down(server, listener))
        try:
            if on_stop is not None:
                await on_stop()
            await ending
        finally:
            ending.cancel()
    finally:
        listener.close()


def raise_open_files() -> int:
    """Let this process open as many files as the system permits; return how many."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (most, max(soft, _OPEN_MAX)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            return wanted if wanted != resource.RLIM_INFINITY else 1_000_000
    return soft


def limit_to_open_files(wanted: int) -> int:
    """Return how many of `wanted` connections this process has files for; at least 1."""
    return max(1, min(wanted, raise_open_files() - _OTHER_FILES))


async def _start(
    app: Any, listener: socket.socket, grace_s: float, http: str, max_connections: int | None
) -> "uvicorn.Server":
    """Start uvicorn by the steps of its `serve`, which would handle signals and wake up every 0.1 s."""
    import uvicorn

    config = uvicorn.Config(
        app,
        http=http,
        limit_concurrency=max_connections,
        loop="none",
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, int(grace_s)),
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.on_tick(0)
    try:
        await server.startup(sockets=[listener])
    except SystemExit:
        raise RuntimeError("the application did not start") from None
    return server


async def _tick_until(stop: asyncio.Event, server: "uvicorn.Server") -> None:
    """Let uvicorn set the Date header of its responses each second until `stop` is set."""
    while not await wait_for_event(stop, _TICK_SECONDS):
        await server.on_tick(0)


async def _shut_down(server: "uvicorn.Server", listener: socket.socket) -> None:
    """End the server once each connection that it has accepted is known to it.

    It closes the idle ones that it knows, and would wait for any other until the grace is over.
    """
    for each in server.servers:
        each.close()
    await asyncio.sleep(_ACCEPT_SECONDS)
    await server.shutdown(sockets=[listener])
