"""Serve an ASGI application with uvicorn: our socket, our signals, one bounded way to stop."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from agentchat.runtime import garbage_collection, logs
from agentchat.runtime.listening_socket import open_listening_socket

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
    server = _build_server(app, grace_s, http, max_connections)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await _wait_until_started(server, serving)
        garbage_collection.freeze_heap()
        logs.get_logger("web").info("listening", host=host, port=listener.getsockname()[1])
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        if on_stop is not None:
            await on_stop()
        await serving
    finally:
        stopping.cancel()
        serving.cancel()
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


async def _wait_until_started(server: Any, serving: "asyncio.Task[None]") -> None:
    """Poll uvicorn's flag: it has no event. It is set within milliseconds, or serving ends."""
    while not server.started and not serving.done():  # noqa: ASYNC110 - a flag is all there is
        await asyncio.sleep(0.005)
    if serving.done():
        serving.result()


def _build_server(app: Any, grace_s: float, http: str, max_connections: int | None) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # `runtime.worker` handles the process's signals.
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            # uvicorn would exit here without a log line of ours.
            try:
                await super().startup(sockets)
            except SystemExit:
                raise RuntimeError("the application did not start") from None

    return Server(
        uvicorn.Config(
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
    )
