"""An HTTP/1.1 connection that asks for one stream after the other, at little cost next to what it measures.

It knows this of the wire: a stream of events, chunked, of which those that carry text hold numbers
(`bench.upstream.DELTA`), and `"type":"done"`, or another text that it is given, at the end of a good stream.
"""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

import msgspec

from bench.upstream import DELTA, LENGTH
from ops.errors import StackError

_END = b"\r\n0\r\n\r\n"
DONE = '"type":"done"'
_ERROR = b'"type":"error"'
_CODE = re.compile(rb'"code":"(\w+)"')
_KEPT = 32
"""Bytes that may be the beginning of what is looked for: a marker or a number that two packets share."""


class BenchError(StackError):
    """A server did not answer as it should; the text is one line for who measures."""


class Reply(msgspec.Struct):
    """Times are `time.perf_counter()`, in seconds; 0.0 is never. `numbers`: each delta and its time."""

    began: float
    first: float = 0.0
    ended: float = 0.0
    status: int = 0
    done: bool = False
    numbers: list[tuple[int, float]] = msgspec.field(default_factory=list)
    head: bytes = b""
    """What came first: the answer's head and the first events, at most 4 KiB of it."""
    tail: bytes = b""
    """The last error event, and what came with it."""

    @property
    def failed(self) -> str | None:
        """What went wrong, in two words: the status, and the error's code where it has one."""
        if self.status == 200 and self.done and self.first:
            return None
        code = _CODE.search(self.head + self.tail)
        return f"{self.status} {code[1].decode() if code else 'broken off'}"


def _is_whole(refusal: bytes) -> bool:
    length, end = LENGTH.search(refusal), refusal.find(b"\r\n\r\n")
    return end >= 0 and (length is None or len(refusal) >= end + 4 + int(length[1]))


def request(url: str, headers: Mapping[str, str], body: object) -> bytes:
    parts, payload = urlsplit(url), msgspec.json.encode(body)
    lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(payload)}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + payload


class Connection(asyncio.Protocol):
    """Of one server; `every` notes the time of each delta, else only the first is timed.

    `done` is in what ends a stream where all went well.
    """

    def __init__(self, *, every: bool = False, done: str = DONE) -> None:
        self._every = every
        self._done = done.encode()
        self._reply: Reply | None = None
        self._ended: asyncio.Future[Reply] | None = None
        self._tail = b""

    @classmethod
    async def to(cls, url: str, *, every: bool = False, done: str = DONE) -> "Connection":
        """Raises OSError."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            lambda: cls(every=every, done=done), parts.hostname, parts.port or 80
        )
        return made

    async def ask(self, asked: bytes) -> Reply:
        self._ended = asyncio.get_running_loop().create_future()
        self._tail = b""
        self._reply = Reply(time.perf_counter())
        self._transport.write(asked)
        return await self._ended

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of asyncio.Protocol
        self._end()

    def data_received(self, data: bytes) -> None:
        reply, now = self._reply, time.perf_counter()
        if reply is None:
            return
        if not reply.status:
            reply.status = int(data[9:12])
        if len(reply.head) < 4096 and not (self._every and reply.first):
            reply.head += data
        data, counted = self._tail + data, 0
        if (not reply.first or self._every) and (found := DELTA.findall(data)):
            reply.first = reply.first or now
            counted = data.rfind(found[-1]) + len(found[-1])
            if self._every:
                reply.numbers += [(int(number), now) for number in found]
        self._tail = data[max(counted, len(data) - _KEPT) :]
        if _ERROR in data:
            reply.tail = data
        if self._done in data:
            reply.done = True
        if data.endswith(_END):
            self._end()
        elif reply.status != 200 and _is_whole(reply.head):
            self._transport.close()
            self._end()

    def _end(self) -> None:
        if self._reply is not None and self._ended is not None:
            self._reply.ended = time.perf_counter()
            if not self._ended.done():
                self._ended.set_result(self._reply)
        self._reply = self._ended = None
