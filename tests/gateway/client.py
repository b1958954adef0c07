"""A caller of the gateway: JSON over httpx, streams as events or as bytes, and plain sockets."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from tests.gateway.worker import Turn, Worker


class EventReader:
    """Reads one open stream: events by the specification's read rule, and all bytes as they came."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.bytes = b""
        self._lines = self._read()

    async def next(self, seconds: float = 10.0) -> dict[str, Any]:
        async with asyncio.timeout(seconds):
            event: dict[str, Any] = await anext(self._lines)
            return event

    async def rest(self, seconds: float = 30.0) -> list[dict[str, Any]]:
        async with asyncio.timeout(seconds):
            return [event async for event in self._lines]

    async def _read(self) -> AsyncIterator[dict[str, Any]]:
        waiting = b""
        async for piece in self.response.aiter_raw():
            self.bytes += piece
            waiting += piece
            while b"\n\n" in waiting:
                block, _, waiting = waiting.partition(b"\n\n")
                line = block.rpartition(b"\n")[2]  # after the `id:` that some have
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        assert not waiting


class Client:
    """One account's key and agent at one gateway."""

    def __init__(self, http: httpx.AsyncClient, url: str, key: str, agent: str) -> None:
        self.http = http
        self.url = url
        self.headers = {"X-Api-Key": key, "X-Agent-Id": agent}

    async def chat(self, message: str = "hi", **body: Any) -> httpx.Response:
        return await self.http.post(
            f"{self.url}/v1/chat", json={"message": message, **body}, headers=self.headers
        )

    async def post(
        self, path: str = "/v1/chat", *, content: bytes = b'{"message":"hi"}', **headers: str | None
    ) -> httpx.Response:
        """A POST with headers changed: `content_type="text/plain"`, or None to leave one out."""
        sent: dict[str, str] = {**self.headers, "Content-Type": "application/json"}
        for name, value in headers.items():
            name = name.replace("_", "-").title()
            if value is None:
                sent.pop(name, None)
            else:
                sent[name] = value
        return await self.http.post(f"{self.url}{path}", content=content, headers=sent)

    async def open(self, message: str = "hi", form: int | None = None, **body: Any) -> EventReader:
        """A stream that stays open until its response is closed."""
        headers = dict(self.headers) if form is None else {**self.headers, "X-Stream-Form": str(form)}
        request = self.http.build_request(
            "POST", f"{self.url}/v1/chat/stream", json={"message": message, **body}, headers=headers
        )
        return EventReader(await self.http.send(request, stream=True))

    def bytes(self, path: str = "/v1/chat/stream", message: str = "hi") -> bytes:
        """A request as it is on the wire, for plain sockets."""
        body = json.dumps({"message": message}).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: x",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.send("GET", path, params=query)

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **given: Any
    ) -> httpx.Response:
        """A request with nothing but the key, and what is given."""
        key = {"X-Api-Key": self.headers["X-Api-Key"]}
        return await self.http.request(
            method, f"{self.url}{path}", headers={**key, **(headers or {})}, **given
        )


async def send_raw(port: int, data: bytes, *, seconds: float = 15.0, read: int = -1) -> bytes:
    """Send bytes on a plain socket and read until the server closes, or `read` bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        async with asyncio.timeout(seconds):
            return await reader.read(read)
    finally:
        writer.close()


async def slow_socket(port: int, data: bytes) -> socket.socket:
    """A connection that has sent its request and takes little of the answer, until it is read."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(opened, ("127.0.0.1", port))
    await loop.sock_sendall(opened, data)
    return opened


def check_problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Every refusal has the one form; returns its document."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document.keys() - {"errors", "conversation_id"} == {
        "type",
        "title",
        "status",
        "detail",
        "code",
        "trace_id",
    }
    assert document["status"] == status
    assert document["code"] == code
    assert document["trace_id"] == response.headers["x-trace-id"]
    return document


@contextlib.asynccontextmanager
async def is_accepted(
    client: Client, worker: Worker, form: int | None = None, message: str = "hi", **body: Any
) -> AsyncIterator[tuple[Turn, EventReader]]:
    """A stream whose request the worker has accepted, with nothing said yet."""
    opening = asyncio.create_task(client.open(message, form, **body))
    turn = await (await worker.next(message)).accept()
    events = await opening
    try:
        yield turn, events
    finally:
        await events.response.aclose()
