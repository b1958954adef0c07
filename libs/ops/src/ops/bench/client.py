"""A small HTTP/1.1 client that notes when each SSE line arrived; only for loopback, only for measuring."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from contracts import wire
from ops.errors import StackError

_READ = 65536


class BenchError(StackError):
    """The server did not answer as it should; the text is one line for the operator."""


class Arrival:
    """One `data:` line and the `time.perf_counter()` of its arrival, in seconds."""

    __slots__ = ("at", "data")

    def __init__(self, at: float, data: bytes) -> None:
        self.at = at
        self.data = data


async def stream(url: str, headers: Mapping[str, str], body: object) -> AsyncIterator[Arrival]:
    """POST `body` as JSON and yield the `data:` lines of the reply as they arrive.

    Raises `BenchError` for any status but 200, and `OSError` where the connection fails.
    """
    parts = urlsplit(url)
    assert parts.hostname is not None
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        writer.write(_request(parts.netloc, parts.path, headers, wire.encode(body)))
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b" ", 2)[1]
        if status != b"200":
            raise BenchError(f"{url} answered {status.decode()}: {(await reader.read(2000)).decode()}")
        async for arrival in _lines(reader):
            yield arrival
    finally:
        writer.close()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[Arrival]:
    # Chunk sizes stand on lines of their own, so a reader of `data: ` lines may pass over them.
    rest = b""
    while piece := await reader.read(_READ):
        now = time.perf_counter()
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield Arrival(now, line[6:])


def _request(host: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
