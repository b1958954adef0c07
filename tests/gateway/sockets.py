"""Requests as bytes on a plain socket, and their answers read strictly: nothing is tidied up."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def check_refusal(self) -> dict[str, Any]:
        """Every refusal has the one form; returns its document."""
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = json.loads(self.body)
        assert document["status"] == self.status
        assert document["trace_id"] == self.headers["x-trace-id"]
        return document


class Connection:
    """One connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, head: bool = False) -> Answer | None:
        """The next answer; None where the server has closed. `head`: of a HEAD request, so without a body."""
        lines: list[str] = []
        while (line := await self.reader.readline()) != b"\r\n":
            if not line and not lines:
                return None
            assert line.endswith(b"\r\n"), line
            lines.append(line[:-2].decode("ascii"))
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1"
        names = [line.split(": ", 1)[0] for line in lines[1:]]
        assert len(names) == len(set(names)), "a header is sent twice"
        headers = dict(line.split(": ", 1) for line in lines[1:])
        if status == "100":
            return Answer(100, headers, b"")
        assert len(headers["x-trace-id"]) == 32
        size = 0 if head else int(headers["content-length"])
        return Answer(int(status), headers, await self.reader.readexactly(size))

    async def answers(self, *, head: bool = False) -> list[Answer]:
        """The answers up to one that says that it is the last, or to the end of the connection."""
        found: list[Answer] = []
        while (answer := await self.answer(head=head and not found)) is not None:
            found.append(answer)
            if answer.headers.get("connection") == "close":
                break
        return found


@contextlib.asynccontextmanager
async def open_connection(port: int, seconds: float = 15.0) -> AsyncIterator[Connection]:
    """A connection that ends with the block, which must not take longer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(seconds):
            yield Connection(reader, writer)
    finally:
        writer.transport.abort()


async def ask(port: int, data: bytes, *, head: bool = False) -> list[Answer]:
    """Every answer to these bytes, on one connection."""
    async with open_connection(port) as connection:
        connection.send(data)
        return await connection.answers(head=head)
