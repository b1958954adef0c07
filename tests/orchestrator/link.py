"""A TCP link to a server that can be cut and mended."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit


class Link:
    """While it is cut, open connections are reset, and new ones too, or with `holds` they wait."""

    def __init__(self, *, holds: bool = False) -> None:
        self._cut = False
        self._holds = holds
        self._mended = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        self._cut = True
        self._mended.clear()
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._cut = False
        self._mended.set()

    @contextlib.asynccontextmanager
    async def to(self, url: str) -> AsyncIterator[str]:
        """The same address by way of this link."""
        parts = urlsplit(url)
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(task := asyncio.create_task(self._join(reader, writer, parts.hostname, parts.port)))
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        user = parts.netloc.rpartition("@")[0]
        try:
            yield urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}"))
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        host: str | None,
        port: int | None,
    ) -> None:
        if self._cut and self._holds:
            await self._mended.wait()
        elif self._cut:
            writer.transport.abort()
            return
        there_reader, there_writer = await asyncio.open_connection(host, port)
        pair = (writer, there_writer)
        self._writers.update(pair)
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            self._writers.difference_update(pair)
            for each in pair:
                each.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.transport.abort()
