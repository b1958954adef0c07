"""Tool servers that the SDK's own server makes, in this process, on a loopback port."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from agentchat.runtime import uvicorn_server
from tests.ports import find_free_port

App = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def serve_app(app: Any, port: int | None = None) -> AsyncIterator[int]:
    """Serve the application while the block runs; yield the port, by default a free one."""
    port, stop = port or find_free_port(), asyncio.Event()
    task = asyncio.create_task(uvicorn_server.serve(app, "127.0.0.1", port, stop, grace_s=1.0))
    try:
        await _wait_until_reachable(port, task)
        yield port
    finally:
        stop.set()
        await task


async def _wait_until_reachable(port: int, task: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(40):
        while not task.done():
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
    task.result()


def restrict_to_2025(app: App) -> App:
    """Return the application without the newest protocol: a probe for it gets 404."""

    async def answer_older(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        if json.loads(body).get("method") == "server/discover":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Any:
            return parts.pop() if parts else await receive()

        await app(scope, receive_again, send)

    return answer_older
