"""A TCP proxy before Postgres that counts what the server sends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from psycopg.conninfo import conninfo_to_dict


class CountingProxy:
    """`sent`: the bytes that have come from the server so far."""

    def __init__(self) -> None:
        self.sent = 0
        self._links: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def before(self, database_url: str) -> AsyncIterator[str]:
        """The same database, by way of the proxy."""
        port = conninfo_to_dict(database_url)["port"]

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._links.add(asyncio.create_task(self._link(int(str(port)), reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield database_url.replace(f":{port}/", f":{server.sockets[0].getsockname()[1]}/")
        finally:
            server.close()
            for link in self._links:
                link.cancel()
            await asyncio.gather(*self._links, return_exceptions=True)

    async def _link(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(OSError):
            await asyncio.gather(_forward(reader, server_writer), self._count(server_reader, writer))

    async def _count(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(65536):
                self.sent += len(data)
                writer.write(data)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer):
        while data := await reader.read(65536):
            writer.write(data)
