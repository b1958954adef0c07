"""A TCP proxy before Postgres that can swallow the server's answer to the next COMMIT."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class EatingProxy:
    """`eat(cut=True)` closes the connection in place of the answer; else it falls silent."""

    def __init__(self) -> None:
        self.eaten = 0
        self._cut: bool | None = None

    def eat(self, *, cut: bool) -> None:
        self._cut = cut

    @contextlib.asynccontextmanager
    async def to(self, target: int) -> AsyncIterator[int]:
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", target)
            link = _Link(self, server_writer, writer)
            tasks.add(asyncio.create_task(link.run(reader, server_reader)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def take_order(self) -> bool | None:
        order, self._cut = self._cut, None
        return order


class _Link:
    """One connection: what the server says after a COMMIT was sent is what can be eaten."""

    def __init__(
        self, proxy: EatingProxy, server: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._server = server
        self._client = client
        self._order: bool | None = None

    async def run(self, client: asyncio.StreamReader, server: asyncio.StreamReader) -> None:
        try:
            await asyncio.gather(self._forward(client), self._backward(server))
        finally:
            self._client.close()
            self._server.close()

    async def _forward(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if b"COMMIT" in data:
                    self._order = self._proxy.take_order()
                self._server.write(data)
        await _close(self._server)

    async def _backward(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._order is None:
                    self._client.write(data)
                elif b"COMMIT\x00" in data:
                    self._proxy.eaten += 1
                    if self._order:
                        break
        await _close(self._client)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
