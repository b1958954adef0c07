"""Answers as ASGI applications: a JSON body, or a stream that ends when its client goes."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from model_demo import streaming
from model_demo.pacing import Pacer
from model_demo.streaming import Stream
from model_demo.wire.errors import ApiError
from model_demo.wire.protocol import Wire

_LONGEST_S = 3600.0
Headers = list[tuple[bytes, bytes]]


def json(
    wire: Wire, body: bytes, request_id: str, status: int = 200, headers: Headers | None = None
) -> ASGIApp:
    """One JSON answer."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        head = _headers(wire, b"application/json", request_id)
        head += [(b"content-length", str(len(body)).encode()), *(headers or [])]
        await _start(send, status, head)
        await _body(send, body, more=False)

    return app


def failure(wire: Wire, error: ApiError, request_id: str) -> ASGIApp:
    """The answer to a request that fails before anything was sent."""
    headers: Headers = []
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    return json(wire, wire.error(error, request_id), request_id, error.status, headers)


def value(wire: Wire, content: object, request_id: str) -> ASGIApp:
    """`content` as a JSON answer."""
    return json(wire, msgspec.json.encode(content), request_id)


def stream(planned: Stream, pacer: Pacer) -> ASGIApp:
    """A stream of events. The client's going ends it, wherever it stands."""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        async def write(chunk: bytes) -> None:
            await _body(send, chunk, more=True)

        async def deliver() -> None:
            head = _headers(planned.wire, b"text/event-stream; charset=utf-8", planned.request_id)
            await _start(send, 200, [*head, (b"cache-control", b"no-cache")])
            if await streaming.send(planned, pacer, write):
                await _body(send, b"", more=False)

        await while_connected(deliver, receive)

    return app


def later(answer: ASGIApp, due: float, pacer: Pacer) -> ASGIApp:
    """`answer`, sent at `due` by the pacer's clock; never where that is infinite, until the client goes."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def deliver() -> None:
            await (asyncio.Event().wait() if math.isinf(due) else pacer.until(due))
            await answer(scope, receive, send)

        await while_connected(deliver, receive)

    return app


async def while_connected(work: Callable[[], Awaitable[None]], receive: Receive) -> None:
    """Run `work` to its end, or until the client has gone, an hour at most."""

    async def until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        working.cancel()

    working = asyncio.ensure_future(work())
    watching = asyncio.ensure_future(until_gone())
    try:
        done, _ = await asyncio.wait([working], timeout=_LONGEST_S)
    finally:
        watching.cancel()
        working.cancel()
    if done and not working.cancelled():
        working.result()


def _headers(wire: Wire, media_type: bytes, request_id: str) -> Headers:
    return [(b"content-type", media_type), (wire.request_id_header.encode(), request_id.encode())]


async def _start(send: Send, status: int, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _body(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
