"""Many connections that send the same bytes and no more: of readers who may not read, half heads, nothing."""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator

from runtime.web import raise_open_files

HALF_A_HEAD = b"POST /v1/chat/stream HTTP/1.1\r\nHost: gateway\r\nX-Api-Key: sk"
_THERE = b"there\n"
_SMALL = 2048
_SEGMENT = 536
"""With segments of loopback's size the kernels alone keep megabytes for one who does not read."""


class _Connection(asyncio.Protocol):
    def __init__(self, sent: bytes) -> None:
        self.transport: asyncio.Transport
        self._sent = sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._sent)


class Crowd:
    """Connections to one port that send the same bytes and nothing more."""

    def __init__(self, port: int, sent: bytes = b"") -> None:
        self._port = port
        self._sent = sent
        self._connections: list[_Connection] = []

    def __len__(self) -> int:
        return len(self._connections)

    async def grow(self, count: int, seconds: float = 0.0) -> None:
        """Open so many, evenly over so many seconds. Raises OSError."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + seconds * number / count - loop.time()))
            _, connection = await loop.create_connection(
                lambda: _Connection(self._sent), sock=await self._socket()
            )
            self._connections.append(connection)

    async def _socket(self) -> socket.socket:
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", self._port))
        return opened

    def stop_reading(self) -> None:
        """From now on, what comes stays where it is."""
        for each in self._connections:
            if not each.transport.is_closing():
                each.transport.pause_reading()

    def go(self) -> None:
        """Close them all, without a farewell."""
        for each in self._connections:
            each.transport.abort()


@contextlib.asynccontextmanager
async def crowd_elsewhere(port: int, heads: int, idle: int, seconds: float) -> AsyncIterator[None]:
    """Half heads and idle sockets out of another process, opened in so many seconds before the block begins.

    What measures the delay of others is not to open thousands of connections meanwhile.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.crowd", *map(str, (port, heads, idle, seconds))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != _THERE:
            raise OSError("the other process could not open its connections")
        yield
    finally:
        process.stdin.close()
        await process.wait()


async def _hold(port: int, heads: int, idle: int, seconds: float) -> None:
    raise_open_files()
    crowds = {Crowd(port, HALF_A_HEAD): heads, Crowd(port): idle}
    await asyncio.gather(*(crowd.grow(count, seconds) for crowd, count in crowds.items()))
    sys.stdout.buffer.write(_THERE)
    sys.stdout.buffer.flush()
    await asyncio.to_thread(sys.stdin.read)
    for crowd in crowds:
        crowd.go()


def chat(api_key: str, agent_id: str, message: str) -> bytes:
    """The bytes of a request for a stream of form 1."""
    body = json.dumps({"message": message}).encode()
    lines = [
        *("POST /v1/chat/stream HTTP/1.1", "Host: gateway", "Content-Type: application/json"),
        *(f"X-Api-Key: {api_key}", f"X-Agent-Id: {agent_id}", "X-Stream-Form: 1"),
        *("Connection: close", f"Content-Length: {len(body)}", "", ""),
    ]
    return "\r\n".join(lines).encode() + body


if __name__ == "__main__":
    port_, heads_, idle_ = map(int, sys.argv[1:4])
    asyncio.run(_hold(port_, heads_, idle_, float(sys.argv[4])))
