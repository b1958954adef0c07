import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest


class FreezingProxy:
    """Forwards a TCP port until it is frozen: then it takes its peers' bytes and passes none on."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def freeze(self) -> None:
        self._open.clear()

    def thaw(self) -> None:
        self._open.set()

    @contextlib.asynccontextmanager
    async def to(self, target: int, port: int = 0) -> AsyncIterator[int]:
        """Forward `port` to `target`; yields the port to connect to."""
        pipes: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", target)
            for source, sink in ((reader, upstream_writer), (upstream_reader, writer)):
                pipes.add(asyncio.create_task(self._pipe(source, sink)))

        server = await asyncio.start_server(accept, "127.0.0.1", port)
        yield server.sockets[0].getsockname()[1]
        server.close()
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._open.wait()
                sink.write(data)
        except OSError:
            pass
        finally:
            sink.close()


@pytest.fixture
def proxy() -> FreezingProxy:
    return FreezingProxy()
