"""One HTTP request and its answer, as all of the gateway shares it."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

from litestar import Response
from litestar.connection import ASGIConnection

from directory.caller import AgentSummary
from gateway.http.body_reader import BodyReader

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

ATTRIBUTE = "exchange"
"""Where an Exchange stands in `scope["state"]`."""

ABORT = "agentchat.abort"
"""The ASGI extension of our server protocol: its `abort` is a function that drops the connection."""
WRITE = "agentchat.write"
"""That whose `write` is a function that sends a piece of a body at once, and says whether it could."""
GONE = "agentchat.gone"
"""That whose `watch` takes a function to be called if the client goes before it is answered."""
TARGET = "agentchat.target"
"""The ASGI extension of our server protocol: its `bytes` are the request's target as it came."""

SEND_SECONDS = 15.0
"""A client that reads nothing of its answer for this long is disconnected."""

_PIECE_BYTES = 64 * 1024

T = TypeVar("T")
Connection = ASGIConnection[Any, Any, Any, Any]
"""What a guard gets: the request, before its body is read."""


class ClientGone(Exception):  # noqa: N818 - an outcome
    """Nobody waits for the answer any more."""


class Exchange:
    """The request's trace, what is known of its caller, and what every answer to it must carry.

    `agent` is the one that the headers or the address name, if it is one of the account's.
    `conversation_id` is set when the request is published: its reply will be there.

    `headers` are added to the answer, whatever it becomes. `unread` is True while a body may still come.
    `reader` is where large bodies are read, `words` how refusals are worded (`problems.Words`).
    What is entered with `enter` is held until the request has been answered.
    """

    __slots__ = (
        "account_id",
        "agent",
        "conversation_id",
        "headers",
        "held",
        "reader",
        "receive",
        "scope",
        "send",
        "status",
        "trace_id",
        "unread",
        "words",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        trace_id: str,
        reader: BodyReader,
        words: Callable[[Any, str], tuple[list[tuple[bytes, bytes]], bytes]],
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.trace_id = trace_id
        self.headers: list[tuple[bytes, bytes]] = [(b"x-trace-id", trace_id.encode())]
        self.account_id: str | None = None
        self.agent: AgentSummary | None = None
        self.conversation_id: str | None = None
        self.status: int | None = None
        self.held = AsyncExitStack()
        self.unread = bool(self.header(b"transfer-encoding")) or any(
            length.strip(b"0") for length in self.header(b"content-length")
        )
        self.send = send
        self.reader = reader
        self.words = words

    def answer_as(self, trace_id: str) -> None:
        """The answer is that of another request, whose trace it carries."""
        if trace_id == self.trace_id:
            return
        self.trace_id = trace_id
        self.headers = [header for header in self.headers if header[0] != b"x-trace-id"]
        self.headers.append((b"x-trace-id", trace_id.encode()))

    def header(self, name: bytes) -> list[bytes]:
        """The values of a request header (lower-case name), one for each line that has it."""
        return [value for given, value in self.scope["headers"] if given == name]

    async def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter a context that is left when the request has been answered, or is about to be refused."""
        return await self.held.enter_async_context(context)

    def watch(self, gone: Callable[[], None]) -> None:
        """Have `gone` called if the client goes before the answer's end. Only after the body was read."""
        self.scope["extensions"][GONE]["watch"](gone)

    def write(self, data: bytes) -> bool:
        """Send a piece of a body that has begun, with no turn of the event loop between.

        False where the client has not taken what was sent before, or has gone; True for b"" where it has.
        """
        written: bool = self.scope["extensions"][WRITE]["write"](data)
        return written

    def abort(self) -> None:
        """Drop the connection with what is unsent; the server then reports it as disconnected."""
        self.scope["extensions"][ABORT]["abort"]()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        await self.send(
            {"type": "http.response.start", "status": status, "headers": [*headers, *self.headers]}
        )

    async def body(self, data: bytes, *, more: bool = False) -> None:
        """Send a piece of the body, the last one unless there is `more`."""
        await self.send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(
        self, status: int, media_type: bytes, data: bytes, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Send a complete answer, and return when the client has taken it, but for what buffers hold.

        Raises ClientGone where it does not take it.
        """
        length = str(len(data)).encode()
        await self.start(status, [(b"content-type", media_type), (b"content-length", length), *headers])
        if len(data) > _PIECE_BYTES:
            for begin in range(0, len(data), _PIECE_BYTES):
                await self._taken(data[begin : begin + _PIECE_BYTES])
            data = b""
        await self.body(data)

    async def _taken(self, piece: bytes) -> None:
        """Send a piece once the client has taken most of those before."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.body(piece, more=True)
        except TimeoutError:
            self.abort()
            while (await self.receive())["type"] != "http.disconnect":
                pass
            raise ClientGone from None


def of(scope: Any) -> Exchange:
    exchange = scope["state"][ATTRIBUTE]
    assert isinstance(exchange, Exchange)
    return exchange


class DirectResponse(Response[T]):
    """Base of what handlers return: `send_to` sends the answer on the request's own connection."""

    def to_asgi_response(self, *_: Any, **settled: Any) -> Any:
        """The application that sends it; `settled` is what the handler's decorator says."""
        self._settled = settled

        async def send(scope: Scope, *_: Any, **__: Any) -> None:
            await self.send_to(of(scope))

        return send

    async def send_to(self, exchange: Exchange) -> None:
        """Send it. Here: nothing, as nobody waits for an answer."""
