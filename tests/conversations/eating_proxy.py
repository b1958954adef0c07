"""A TCP proxy before Postgres that can swallow the server's answer to the next append."""

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
    """One connection: the answer to an append is known by its column, and says that it is committed."""

    def __init__(
        self, proxy: EatingProxy, server: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._server = server
        self._client = client

    async def run(self, client: asyncio.StreamReader, server: asyncio.StreamReader) -> None:
        try:
            await asyncio.gather(self._forward(client), self._backward(server))
        finally:
            self._client.close()
            self._server.close()

    async def _forward(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self._server.write(data)
        await _close(self._server)

    async def _backward(self, reader: asyncio.StreamReader) -> None:
        order: bool | None = None
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if order is None and b"appended_conversation\x00" in data:
                    order = self._proxy.take_order()
                    self._proxy.eaten += order is not None
                if order:
                    break
                if order is None:
                    self._client.write(data)
        await _close(self._client)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
