"""The load generator: concurrent streams over HTTP/1.1, in a process of its own.

It expects a chunked stream of events: those with text hold numbers (`bench.upstream.DELTA`), and a good
stream ends with `"type":"done"`.
"""

import asyncio
import contextlib
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import uvloop

from agentchat.ops.errors import StackError
from agentchat.runtime.uvicorn_server import raise_open_files
from bench.processes import ROOT
from bench.upstream import DELTA, LENGTH

_DONE = b'"type":"done"'
_END = b"\r\n0\r\n\r\n"
_ERROR = b'"type":"error"'
_CODE = re.compile(rb'"code":"(\w+)"')
_HEAD_BYTES = 4096
_MARKER_BYTES = 64
"""At least the length of everything that is searched for, since two packets may share it."""


class BenchError(StackError):
    """A server did not answer as it should. The text is one line for the person who measures."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """`chats` requests in all, `at_once` at a time, whose first ones begin spread over `ramp` seconds.

    `bodies` are sent in turn.
    """

    url: str
    headers: dict[str, str]
    bodies: tuple[dict[str, Any], ...]
    chats: int
    at_once: int
    ramp: float = 0.0


class Loaded(msgspec.Struct, kw_only=True):
    """The result of a load, in seconds: until the first delta and until the end of each good answer.

    `busy` is the share of a core that the client used: near 1 it is the client that is measured.
    """

    seconds: float
    firsts: list[float]
    lengths: list[float]
    failures: dict[str, int]
    busy: float


class Reply(msgspec.Struct):
    """Times are `time.perf_counter()`; 0.0 is never. `head` is the beginning, `tail` the last error event."""

    began: float
    first: float = 0.0
    ended: float = 0.0
    status: int = 0
    done: bool = False
    head: bytes = b""
    tail: bytes = b""

    @property
    def failed(self) -> str | None:
        """Return the status, and the error's code if it has one, of an answer that is not complete."""
        if self.status == 200 and self.done and self.first:
            return None
        code = _CODE.search(self.head + self.tail)
        return f"{self.status} {code[1].decode() if code else 'broken off'}"


def request(url: str, headers: Mapping[str, str], body: object) -> bytes:
    """Build the bytes of one POST request."""
    parts, payload = urlsplit(url), msgspec.json.encode(body)
    fields = {"host": parts.netloc, "content-type": "application/json", "content-length": len(payload)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (fields | dict(headers)).items())
    return f"POST {parts.path} HTTP/1.1\r\n{lines}\r\n".encode() + payload


class Connection(asyncio.Protocol):
    """One connection, which sends one request after the other."""

    def __init__(self) -> None:
        self._reply: Reply | None = None
        self._ended: asyncio.Future[Reply] | None = None
        self._kept = b""

    @classmethod
    async def to(cls, url: str) -> "Connection":
        """Connect. Raises OSError."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, parts.hostname, parts.port or 80)
        return connection

    async def ask(self, asked: bytes) -> Reply:
        """Send a request and wait for the end of its answer, or of the connection."""
        self._ended = asyncio.get_running_loop().create_future()
        self._kept = b""
        self._reply = Reply(time.perf_counter())
        self._transport.write(asked)
        return await self._ended

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (asyncio.Protocol)."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of asyncio.Protocol
        """Note that the connection was closed (asyncio.Protocol)."""
        self._end()

    def data_received(self, data: bytes) -> None:
        """Process received bytes (asyncio.Protocol)."""
        reply, now = self._reply, time.perf_counter()
        if reply is None:
            return
        if not reply.status:
            reply.status = int(data[9:12])
        if len(reply.head) < _HEAD_BYTES:
            reply.head += data
        data = self._kept + data
        self._kept = data[-_MARKER_BYTES:]
        if not reply.first and DELTA.search(data):
            reply.first = now
        if _ERROR in data:
            reply.tail = data
        if _DONE in data:
            reply.done = True
        if data.endswith(_END):
            self._end()
        elif reply.status != 200 and _is_complete(reply.head):
            self._transport.close()
            self._end()

    def _end(self) -> None:
        if self._reply is not None and self._ended is not None:
            self._reply.ended = time.perf_counter()
            if not self._ended.done():
                self._ended.set_result(self._reply)
        self._reply = self._ended = None


def _is_complete(refusal: bytes) -> bool:
    length, end = LENGTH.search(refusal), refusal.find(b"\r\n\r\n")
    return end >= 0 and (length is None or len(refusal) >= end + 4 + int(length[1]))


async def run(load: Load) -> Loaded:
    """Send a load from a process of its own, whose CPU time is in no bill."""
    command = (sys.executable, "-m", "bench.load")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)
    try:
        output, _ = await process.communicate(msgspec.json.encode(load))
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return msgspec.json.decode(output, type=Loaded)


async def _send(load: Load) -> Loaded:
    requests = [request(load.url, load.headers, body) for body in load.bodies]
    clients = min(load.at_once, load.chats)
    # Streams that begin one after the other connect when they begin: a gateway waits 10 s for a request.
    connections = [None if load.ramp else await Connection.to(load.url) for _ in range(clients)]
    turns = iter(range(load.chats))
    cpu, began = time.process_time(), time.perf_counter()

    async def run_client(place: int) -> list[Reply]:
        await asyncio.sleep(load.ramp * place / clients)
        connection, replies = connections[place] or await Connection.to(load.url), []
        for turn in turns:
            replies.append(await connection.ask(requests[turn % len(requests)]))
            if replies[-1].failed:
                connection = await Connection.to(load.url)
        return replies

    each = await asyncio.gather(*map(run_client, range(clients)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return summarize_replies([reply for replies in each for reply in replies], seconds, cpu)


def summarize_replies(replies: Sequence[Reply], seconds: float, cpu: float) -> Loaded:
    good = [reply for reply in replies if not reply.failed]
    return Loaded(
        seconds=seconds,
        firsts=[reply.first - reply.began for reply in good],
        lengths=[reply.ended - reply.began for reply in good],
        failures=dict(Counter(reply.failed for reply in replies if reply.failed)),
        busy=cpu / seconds,
    )


if __name__ == "__main__":
    raise_open_files()
    with contextlib.suppress(KeyboardInterrupt):
        loaded = uvloop.run(_send(msgspec.json.decode(sys.stdin.buffer.read(), type=Load)))
        sys.stdout.buffer.write(msgspec.json.encode(loaded))
