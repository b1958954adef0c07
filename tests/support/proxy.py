"""A TCP proxy that can be made to fail in the ways in which a network does, and that counts bytes."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

Mode = Literal["pass", "refuse", "cut", "hold", "freeze", "reset", "one_way", "delay", "eat", "mute"]

_DELAY_SECONDS = 0.2
_CHUNK = 65536
_ABORTS = struct.pack("ii", 1, 0)
_COMMITTED = (b"COMMIT\0", b"appended_conversation\0")
"""In the answer to a COMMIT, and to the statement that stores events and is a transaction of its own."""


class Proxy:
    """Listens on `port` and connects to `target` for each connection; both on loopback."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self.port = port
        self.eaten = 0
        """How many answers did not arrive in the modes `eat` and `mute`."""
        self.used = 0
        """How many connections there were."""
        self.received = 0
        """Bytes from the target."""
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

    async def wait_eaten(self, before: int, seconds: float) -> bool:
        """Return True if more answers than `before` are eaten in so long; then the link passes all again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.eaten <= before:  # noqa: ASYNC110 - polled, it is short
                    await asyncio.sleep(0.02)
        await self.set_mode("pass")
        return self.eaten > before

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def through(self, url: str) -> str:
        """The target's address, by way of this proxy."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}"))

    async def close(self) -> None:
        self._stop_listening()
        self._reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def set_mode(self, mode: Mode) -> int:
        """Fail from now on in this way, until `pass`; returns how many connections were open.

        `refuse`: open connections are reset, and nothing listens. `cut`: they are reset, and so are new ones.
        `hold`: they are reset, and new ones wait. `freeze`: nothing passes, and nothing is lost. `one_way`:
        the answers do not pass. `delay`: everything comes 0.2 s late. `reset`: open connections are reset,
        once. `eat`: the answer to the next commit is lost, and its connection is reset. `mute`: it is lost,
        and nothing comes after it.
        """
        connected = self.connected
        self._mode = "pass" if mode == "reset" else mode
        if mode in ("freeze", "hold"):
            self._flows.clear()
        elif mode == "pass":
            self._flows.set()
        if mode in ("refuse", "cut", "hold", "reset"):
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
        if self._mode == "cut":
            _abort(writer)
            return
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
                if not forward:
                    self.received += len(data)
                    self._lose_commit(data, connection)
                if forward or not connection.is_mute:
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

    def _lose_commit(self, data: bytes, connection: "_Connection") -> None:
        """If this is the answer to a commit that is to be lost (frontend/backend protocol 3.0)."""
        if self._mode not in ("eat", "mute") or not any(word in data for word in _COMMITTED):
            return
        self.eaten += 1
        connection.is_mute = True
        if self._mode == "eat":
            connection.reset()
        self._mode = "pass"


class _Connection:
    """Both ends of one connection."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._ends = (near, far)
        self.is_mute = False
        """Nothing arrives from the target any more."""

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


@contextlib.asynccontextmanager
async def run_proxy(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy for the server at this address, and the address by way of it."""
    async with Proxy(urlsplit(url).port or 0) as proxy:
        yield proxy, proxy.through(url)
