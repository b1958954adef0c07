"""A service in the test's own process and event loop, on a real port and real servers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


class EmbeddedService:
    """What callers need to know of it. `stop` is set as by SIGTERM; `serving` ends once it has drained."""

    def __init__(self, port: int, run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        self.port = port
        self.stop = asyncio.Event()
        self.serving = asyncio.create_task(run(self.stop))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def run_embedded(
    port: int, run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]
) -> AsyncIterator[EmbeddedService]:
    """It runs and is ready while the block runs: the same as a process, but for the start of one."""
    service = EmbeddedService(port, run)
    await _wait_until_listening(service)
    try:
        yield service
    finally:
        service.stop.set()
        await service.serving


async def _wait_until_listening(service: EmbeddedService) -> None:
    async with asyncio.timeout(30):
        while True:
            if service.serving.done():
                service.serving.result()
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection("127.0.0.1", service.port)
                writer.close()
                return
            await asyncio.sleep(0.01)
