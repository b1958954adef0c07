"""uvicorn's HTTP protocol, made strict: bounded request heads, our form of answer to what does not parse.

uvicorn waits without end for the rest of a request's head, takes heads of any size, and answers malformed
requests in plain text (RELIABILITY 2.3, S16).
"""

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.exchange import ABORT
from gateway.problems import MEDIA_TYPE, Refusal, body_of

HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 64 * 1024


class HeadTooLarge(Exception):  # noqa: N818 - raised into the parser, which reports it as malformed
    """The request line and headers are larger than MAX_HEAD_BYTES."""


class StrictProtocol(HttpToolsProtocol):
    """One connection."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn narrows it
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}
        self._head_bytes = 0
        if self._head_timer is None:
            self._expect_head()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_arrived()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """In the form of all our errors; such a request has no trace but the one made here."""
        trace_id = secrets.token_hex(16)
        data = body_of(Refusal("invalid_request", msg), trace_id)
        lines = (
            b"HTTP/1.1 400 Bad Request",
            b"content-type: " + MEDIA_TYPE,
            b"content-length: %d" % len(data),
            b"x-trace-id: " + trace_id.encode(),
            b"connection: close",
            b"",
            data,
        )
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge

    def _expect_head(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._head_late)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        self._head_timer = None
        self.transport.close()


def install() -> None:
    """Have uvicorn use it wherever it is told to use httptools: uvicorn looks protocols up in this table."""
    from uvicorn import config

    table: dict[Any, str] = config.HTTP_PROTOCOLS
    table["httptools"] = f"{__name__}:{StrictProtocol.__name__}"
