"""A server of embeddings on loopback, in the common form, that does what a test tells it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

Reply = tuple[int, Any]
"""Status and body; None for a body closes the connection in the middle of it."""
Script = Callable[[list[str]], Reply]


class EmbeddingServer:
    """`asked` is the texts of each request, `headers` are the last one's. `script` decides the answers."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[list[str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.more = ""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, until it ends."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head.decode().split("\r\n"), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test has ended
        finally:
            writer.close()

    async def _answer(
        self, lines: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert lines[0] == "POST /v1/embeddings HTTP/1.1"
        pairs = (line.partition(": ") for line in lines[1:] if line)
        self.headers = {name.lower(): value for name, _, value in pairs}
        body = json.loads(await reader.readexactly(int(self.headers["content-length"])))
        self.bodies.append(body)
        self.asked.append(body["input"])
        status, answer = self.script(body["input"])
        content = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{self.more}"
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode())
        if answer is None:
            writer.close()
            return
        writer.write(content)
        await writer.drain()


def answer(vectors: list[list[float]]) -> Reply:
    """Build a successful response, in an order of its own."""
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    return 200, {"object": "list", "model": "m", "data": data[::-1], "usage": {"total_tokens": 1}}


@asynccontextmanager
async def run_embedding_server(script: Script) -> AsyncIterator[EmbeddingServer]:
    """Run a server while the block runs."""
    served = EmbeddingServer(script)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield served
    finally:
        server.close()
