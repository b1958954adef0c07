"""An HTTP server that is sent webhooks, and answers each path as a test says."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec


class Received(msgspec.Struct, frozen=True):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


Answer = Callable[[Received], Awaitable[bytes | None]]
"""The answer, or None to close the connection without one."""


def build_status(code: int, *headers: str) -> bytes:
    """Build an answer without a body."""
    lines = [f"HTTP/1.1 {code} Status", *headers, "Content-Length: 0", "", ""]
    return "\r\n".join(lines).encode()


class Receiver:
    """The requests received, in order. A path without an answer of its own says 204."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[Received] = []
        self._answers: dict[str, Answer] = {}
        self._grown = asyncio.Condition()

    def build_url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def answer_with(self, path: str, *answers: bytes) -> None:
        """Answer a path with these one after the other, the last one from then on."""
        left = list(answers)

        async def answer(_: Received) -> bytes:
            return left.pop(0) if len(left) > 1 else left[0]

        self._answers[path] = answer

    def answer_by(self, path: str, answer: Answer) -> None:
        self._answers[path] = answer

    def list_at(self, path: str) -> list[Received]:
        return [each for each in self.received if each.path == path]

    async def wait_until(self, path: str, count: int) -> list[Received]:
        """Wait until a path has received so many requests, and return them."""
        async with asyncio.timeout(60), self._grown:
            await self._grown.wait_for(lambda: len(self.list_at(path)) >= count)
        return self.list_at(path)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.strip().split("\r\n")
                pairs = (line.split(": ", 1) for line in lines)
                headers = {name.lower(): value for name, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Received(first.split(" ")[1], headers, body.decode())
                self.received.append(request)
                async with self._grown:
                    self._grown.notify_all()
                answer = self._answers.get(request.path)
                answered = await answer(request) if answer else build_status(204)
                if answered is None:
                    return
                writer.write(answered)
                await writer.drain()


@contextlib.asynccontextmanager
async def open_receiver() -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of loopback."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
