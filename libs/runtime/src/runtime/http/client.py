"""Calls over HTTP/1.1, on connections that are kept: to model providers, and to the endpoints of webhooks.

A call costs a quarter of aiohttp's CPU time, a piece of its answer a third (docs/change/performance.md), for
what is left out: redirects, proxies, cookies, compression, requests whose body is not whole.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, cast

import aiohappyeyeballs
from aiohappyeyeballs.types import AddrInfoType

from runtime.http.answer import HttpAnswer

_HAPPY_EYEBALLS_SECONDS = 0.25  # RFC 8305 section 8


LookUp = Callable[[str, int], Awaitable[Sequence[AddrInfoType]]]
"""Host and port to addresses, as `socket.getaddrinfo` has them."""


class Origin(NamedTuple):
    """Where calls go."""

    host: str
    port: int
    secure: bool


class HttpClient:
    """Any number of calls at once, each on a connection of its own while it lasts.

    `look_up` finds addresses to connect to; None asks the system. An answer that is compressed, which is not
    asked for, is broken, but for `any_encoding`.
    """

    def __init__(
        self,
        tls: ssl.SSLContext,
        *,
        connect_seconds: float,
        keepalive_seconds: float,
        look_up: LookUp | None = None,
        any_encoding: bool = False,
    ) -> None:
        self._tls = tls
        self._look_up = look_up or _look_up
        self._any_encoding = any_encoding
        self._connect_seconds = connect_seconds
        self._keepalive_seconds = keepalive_seconds
        self._idle: dict[Origin, list[_Connection]] = defaultdict(list)
        self._open: set[_Connection] = set()
        self._looking: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def call(self, origin: Origin, request: tuple[bytes, bytes]) -> AsyncIterator[HttpAnswer]:
        """Send head and body; inside, the answer, whose head is here.

        Raises TimeoutError where no connection is made in time, OSError for what else goes wrong with one,
        UnicodeError for a host that has no name, and what `look_up` raises.
        """
        connection = self._kept(origin) or await self._connected(origin)
        try:
            answer = connection.send(request)
            await answer.head()
            yield answer
        finally:
            self._release(origin, connection)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._looking is not None:
            self._looking.cancel()
        for connection in tuple(self._open):
            connection.transport.abort()

    def _kept(self, origin: Origin) -> "_Connection | None":
        """The one that was used last."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    async def _connected(self, origin: Origin) -> "_Connection":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_seconds):
            found = await self._look_up(origin.host, origin.port)
            sock = await aiohappyeyeballs.start_connection(
                found, happy_eyeballs_delay=_HAPPY_EYEBALLS_SECONDS, interleave=1, loop=loop
            )
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._open.discard, self._any_encoding),
                    sock=sock,
                    ssl=self._tls if origin.secure else None,
                    server_hostname=origin.host if origin.secure else None,
                )
            except BaseException:
                sock.close()
                raise
        self._open.add(connection)
        return connection

    def _release(self, origin: Origin, connection: "_Connection") -> None:
        if connection.is_reusable:
            loop = asyncio.get_running_loop()
            connection.rest(loop.time())
            self._idle[origin].append(connection)
            if self._looking is None:
                self._looking = loop.call_later(self._keepalive_seconds, self._look)
        else:
            connection.transport.abort()

    def _look(self) -> None:
        """Close what nobody has used for long."""
        loop = asyncio.get_running_loop()
        before = loop.time() - self._keepalive_seconds
        for origin, idle in tuple(self._idle.items()):
            for connection in idle:
                if connection.idle_since <= before:
                    connection.transport.abort()
            self._idle[origin] = [each for each in idle if each.idle_since > before and not each.is_closed]
            if not self._idle[origin]:
                del self._idle[origin]
        self._looking = loop.call_later(self._keepalive_seconds / 4, self._look) if self._idle else None


async def _look_up(host: str, port: int) -> Sequence[AddrInfoType]:
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


class _Connection(asyncio.Protocol):
    def __init__(self, lost: Callable[["_Connection"], None], any_encoding: bool) -> None:
        self._any_encoding = any_encoding
        self.is_closed = False
        self.idle_since = 0.0
        self._lost = lost
        self._answer: HttpAnswer | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether the request was sent and the answer read to their ends, and others may follow."""
        answer = self._answer
        if self.is_closed or answer is None or not (answer.is_complete and answer.is_reusable):
            return False
        return not self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._lost(self)
        if self._answer is not None:
            self._answer.lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.transport.abort()  # nobody asked
        else:
            self._answer.received(data)

    def send(self, request: tuple[bytes, bytes]) -> HttpAnswer:
        transport = self.transport
        self._answer = HttpAnswer(transport.pause_reading, transport.resume_reading, self._any_encoding)
        transport.write(b"".join(request))
        return self._answer

    def rest(self, now: float) -> None:
        self._answer, self.idle_since = None, now
