"""An answer of HTTP/1.1 while it comes in (RFC 9112), parsed by httptools."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Protocol

import httptools

_MAX_BARE_BYTES = 128 * 1024  # without a byte of the body: a head, what is around chunks, trailers
_MAX_HELD_BYTES = 256 * 1024

Later = Callable[[], Awaitable[None]]
"""What is left to do, in the task: a cancellation may come before it is begun."""


class Taker(Protocol):
    """Who a body is for. `done`: what follows is of no interest."""

    @property
    def done(self) -> bool: ...

    def take(self, piece: bytes) -> Later | None:
        """Called on the loop. What it returns is done before there is more. May raise anything."""


class HttpBroken(OSError):  # noqa: N818 - an outcome
    """The connection broke, or what came is no HTTP, or not what was asked for."""


class HttpAnswer:
    """One call's answer; `status` and `headers` are known once `head` returns.

    `pause` and `resume` stop and start the reading of the socket. `any_encoding`: see `HttpClient`.
    """

    def __init__(
        self, pause: Callable[[], None], resume: Callable[[], None], any_encoding: bool = False
    ) -> None:
        self._any_encoding = any_encoding
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False
        self.is_reusable = False
        self._pause, self._resume = pause, resume
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[None] = self._loop.create_future()
        self._bare_bytes = 0
        self._pieces: list[bytes] = []
        self._paused = False
        self._taker: Taker | None = None
        self._context = contextvars.copy_context()
        self._pending: Later | None = None
        self._fault: Exception | None = None
        self._wake: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Return when the head is here. Raises HttpBroken."""
        await self._head

    async def each(self, taker: Taker) -> None:
        """Hand over each piece of the body until `taker` is done, or there are no more.

        Raises what `taker` raises, and HttpBroken.
        """
        self._taker, self._context = taker, contextvars.copy_context()
        try:
            self._hand_over()
            while True:
                if (pending := self._pending) is not None:
                    await pending()
                    self._pending = None
                    self._hand_over()
                elif self._fault is not None:
                    raise self._fault
                elif taker.done or self.is_complete:
                    return
                else:
                    self._wake = self._loop.create_future()
                    await self._wake
        finally:
            self._taker = self._wake = None

    async def rest(self, seconds: float) -> None:
        """Drop what is left of the body, for so long at most: a connection whose answer was read to its end
        is used again. Raises nothing but a cancellation.
        """
        if not self.is_complete and self._fault is None:
            try:
                async with asyncio.timeout(seconds):
                    await self.each(Dropped())
            except (OSError, TimeoutError):
                pass

    def received(self, data: bytes) -> None:
        """Bytes of the connection; a callback of `asyncio.Protocol`."""
        if self.is_complete or self._fault is not None:
            self.is_reusable = False  # what nobody asked for
            return
        self._bare_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.break_off(HttpBroken(f"the answer is not HTTP: {error}"))
        if self._bare_bytes > _MAX_BARE_BYTES:
            self.break_off(HttpBroken("the answer has a head or a trailer without an end"))
        self._hand_over()

    def lost(self, error: Exception | None) -> None:
        """The connection is gone. A body without a length ends so (RFC 9112 section 6.3)."""
        framed = any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        if self.status and not framed and error is None:
            self.is_complete = True
        elif not self.is_complete:
            broken = HttpBroken("the connection was closed before the answer's end")
            broken.__cause__ = error
            self.break_off(broken)
        self._hand_over()

    def break_off(self, fault: Exception) -> None:
        """Nothing more is read; what came before is still handed over."""
        self.is_reusable = False
        if self._fault is None and not self.is_complete:
            self._fault = fault
        if not self._head.done():
            self._head.set_exception(fault)

    def on_message_begin(self) -> None:
        """Of httptools."""
        if self.is_complete:
            self.is_reusable = False  # an answer that nobody asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of httptools."""
        if not self.status:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Of httptools. What is below 200 comes before the answer (RFC 9110 section 15.2)."""
        if self.status:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self.headers.clear()
        else:
            self.status = status
            if not self._any_encoding and self._is_encoded():
                self.break_off(HttpBroken("the answer is compressed, which was not asked for"))
            elif not self._head.done():
                self._head.set_result(None)

    def _is_encoded(self) -> bool:
        return any(name == b"content-encoding" and value != b"identity" for name, value in self.headers)

    def on_body(self, piece: bytes) -> None:
        """Of httptools."""
        if not self.is_complete:
            self._bare_bytes = 0
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Of httptools."""
        if self.status and not self.is_complete:
            self.is_complete = True
            self.is_reusable = self._fault is None and bool(self._parser.should_keep_alive())

    def _hand_over(self) -> None:
        """What is here goes to the taker, unless he is still busy with what was before."""
        taker = self._taker
        if taker is not None and self._pending is None:
            if self._paused:
                self._paused = False
                self._resume()
            if self._pieces and not taker.done:
                piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces.clear()
                try:
                    self._pending = self._context.run(taker.take, piece)
                except Exception as error:  # noqa: BLE001 - raised where the body is read
                    self._fault, self.is_complete = error, False
            nothing_new = self._pending is None and self._fault is None
            if nothing_new and not self.is_complete and not taker.done:
                return
            if self._wake is not None and not self._wake.done():
                self._wake.set_result(None)
        elif not self._paused and not self.is_complete and self._held() > _MAX_HELD_BYTES:
            self._paused = True
            self._pause()

    def _held(self) -> int:
        return sum(map(len, self._pieces))


class Dropped:
    """Takes a body for nothing."""

    done = False

    def take(self, _piece: bytes) -> None:
        """Nothing is kept."""


class Kept:
    """Keeps the first `most` bytes of a body."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.data = bytearray()

    @property
    def done(self) -> bool:
        """Whether it has as much as it wants."""
        return len(self.data) >= self._most

    def take(self, piece: bytes) -> None:
        """Keep it."""
        self.data += piece[: self._most - len(self.data)]
