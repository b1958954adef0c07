"""A TCP proxy for one link, which can be made to fail in the ways in which a network does."""

import asyncio
import contextlib
import socket
import struct
from typing import Literal

Mode = Literal["pass", "refuse", "freeze", "reset", "one_way", "delay", "eat"]

_DELAY_SECONDS = 0.2
_CHUNK = 65536
_ABORTS = struct.pack("ii", 1, 0)
_COMMITTED = (b"COMMIT\0", b"appended_conversation\0")
"""In the answer to a COMMIT, and to the statement that stores events and is a transaction of its own."""


class Proxy:
    """Listens on `port` for one side of a link and connects to `target` for it; both on loopback."""

    def __init__(self, name: str, port: int, target: int) -> None:
        self.name = name
        self.port = port
        self.target = target
        self.eaten = 0
        self.used = 0
        """How many connections there were."""
        self._mode: Mode = "pass"
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> int:
        return len(self._connections)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._stop_listening()
        self._reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def set_mode(self, mode: Mode) -> int:
        """Fail from now on in this way, until `pass`; returns how many connections were open.

        `refuse`: open connections are reset, and nothing listens. `freeze`: nothing passes, and nothing is
        lost. `one_way`: the answers do not pass. `delay`: all comes 0.2 s late. `reset`: open connections
        are reset, once. `eat`: the answer to the next commit is swallowed, and its connection is reset.
        """
        connected = self.connected
        self._mode = "pass" if mode == "reset" else mode
        if mode == "freeze":
            self._flows.clear()
        elif mode == "pass":
            self._flows.set()
        if mode in ("refuse", "reset"):
            self._reset()
        if mode == "refuse":
            self._stop_listening()
        elif self._server is None:
            await self.open()
        return connected

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _reset(self) -> None:
        for connection in tuple(self._connections):
            connection.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._connect(reader, writer)
        except asyncio.CancelledError:
            pass  # the proxy closes; asyncio's streams would log it
        finally:
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.used += 1
        await self._flows.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _abort(writer)
            return
        connection = _Connection(writer, far_writer)
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._pump(reader, far_writer, connection, forward=True),
                self._pump(far_reader, writer, connection, forward=False),
            )
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: "_Connection",
        *,
        forward: bool,
    ) -> None:
        try:
            while data := await reader.read(_CHUNK):
                await self._hold(forward=forward)
                if self._eats(data, connection, forward=forward):
                    return
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            connection.reset()  # what one side does, the other side sees

    async def _hold(self, *, forward: bool) -> None:
        if self._mode == "delay":
            await asyncio.sleep(_DELAY_SECONDS)
        while self._mode == "one_way" and not forward:  # noqa: ASYNC110 - the mode is polled: it is rare
            await asyncio.sleep(0.02)
        await self._flows.wait()

    def _eats(self, data: bytes, connection: "_Connection", *, forward: bool) -> bool:
        """Whether this was the answer to a commit that is not to arrive (frontend/backend protocol 3.0)."""
        if forward or self._mode != "eat" or not any(word in data for word in _COMMITTED):
            return False
        self._mode = "pass"
        self.eaten += 1
        connection.reset()
        return True


class _Connection:
    """Both ends of one connection."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._ends = (near, far)

    def reset(self) -> None:
        for end in self._ends:
            _abort(end)

    def close(self) -> None:
        for end in self._ends:
            end.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with RST."""
    found = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTS)
    writer.transport.abort()
