"""uvicorn's HTTP protocol, made strict: one reading of every request, bounded in size and in time.

uvicorn waits without end for the rest of a request, takes heads and chunk extensions of any size, and answers
what does not parse in plain text, before the answers that are still due. It stops reading after an offer to
upgrade, and adds trailers to the headers (docs/change/reliability.md HTTP).
"""

import asyncio
import http
import secrets
from collections.abc import Callable
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.http.exchange import ABORT, GONE, TARGET, WRITE
from gateway.http.problem_responses import Refusal, head_of
from gateway.http.request_head import check_head, without_offer
from runtime import logs

HEAD_SECONDS = 10.0
BODY_SECONDS = 12.0  # after the body's readers, who say what is wrong
LINGER_SECONDS = 2.0
MAX_HEAD_BYTES = 64 * 1024
MAX_FRAMING_BYTES = 64 * 1024
MAX_CONNECTIONS = 10_000
_SPARE_CONNECTIONS = 100  # beyond the bound, which are answered 503

Place = Literal["between", "head", "body"]


class StrictProtocol(HttpToolsProtocol):
    """One connection. Answers go out in the order of their requests, a refusal in its place among them."""

    # Next to them uvicorn's own are few enough to share their keys among connections: 1.2 KiB each.
    __slots__ = (
        "_active",
        "_body_bytes",
        "_framing_bytes",
        "_gone",
        "_head_bytes",
        "_is_offer",
        "_max_connections",
        "_messages",
        "_place",
        "_refusal",
        "_timer",
    )

    def __init__(self, *args: Any, max_connections: int = MAX_CONNECTIONS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._max_connections = max_connections
        self._place: Place = "between"
        self._messages = 0
        self._head_bytes = 0
        self._body_bytes = 0
        self._framing_bytes = 0
        self._is_offer = False
        self._active: Any = None  # the RequestResponseCycle that is being answered
        self._gone: Callable[[], None] | None = None  # for the active cycle
        self._refusal: Refusal | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn narrows it
        if len(self.connections) > self._max_connections + _SPARE_CONNECTIONS:
            self.transport.abort()
        else:
            self._arm(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        if self._active is not None:
            self._end_active()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return  # after what was no request there is none
        self._unset_keepalive_if_required()
        place, message, body_bytes = self._place, self._messages, self._body_bytes
        try:
            self._feed(data)
            if (place, message) == (self._place, self._messages):
                self._count_within(len(data) - (self._body_bytes - body_bytes))
        except Refusal as refusal:
            self._refuse(refusal)
        except httptools.HttpParserError as error:
            self._refuse(_refusal_in(error))
        else:
            if self._timer is None and self._place == "between" and not self._is_answering():
                self._arm(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {
            ABORT: {"abort": self.transport.abort},
            GONE: {"watch": self._watch},
            WRITE: {"write": self._write},
        }
        self._place = "head"
        self._messages += 1
        self._head_bytes = 0
        if self._timer is None:
            self._arm(HEAD_SECONDS)

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are counted and dropped: they must not pass for headers (RFC 9110 section 6.5.1)."""
        self._count_head(len(name) + len(value) + 4)
        if self._place == "head":
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        check_head(self.parser.get_method(), self.url, version, self.headers)
        self._is_offer = self.parser.should_upgrade()
        if self._is_offer:
            return  # see _feed
        if len(self.connections) > self._max_connections and self.url != b"/healthz":
            raise Refusal("overloaded", "The server has too many connections.")
        if version == "1.0":
            self.expect_100_continue = False  # RFC 9110 section 10.1.1
        self.scope["extensions"][TARGET] = {"bytes": self.url}
        super().on_headers_complete()
        self._place = "body"
        self._framing_bytes = 0
        self._arm(BODY_SECONDS)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._framing_bytes -= 8 * len(body)  # a byte a chunk is no abuse
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_offer:
            return
        self._disarm()
        self._place = "between"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refusal is not None and not self._is_answering():
            self._send_refusal(self._refusal)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._active, self._gone = cycle, None
        super()._start_asgi_task(cycle, app)

    def _watch(self, gone: Callable[[], None]) -> None:
        """A task for each request, waiting in `receive`, would cost 5 µs."""
        self._gone = gone
        self.flow.resume_reading()
        if self._active.disconnected:
            gone()

    def _write(self, data: bytes) -> bool:
        """A piece of the body of the request that is answered, past its task."""
        cycle = self._active
        if self.flow.write_paused or cycle.disconnected or not cycle.chunked_encoding:
            return False
        if data and cycle.scope["method"] != "HEAD":
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def _end_active(self) -> None:
        """Report to the application that the client has gone."""
        if not self._active.response_complete:
            self._active.disconnected = True
            if self._gone is not None:
                self._gone()
        self._active.message_event.set()

    def _feed(self, data: bytes) -> None:
        """An offer to upgrade is declined by going on as if it was not made (RFC 9110 section 7.8)."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method, version = self.parser.get_method(), self.parser.get_http_version()
            head = without_offer(method, self.url, version, self.headers)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self._feed(head + data[offer.args[0] :])

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise Refusal("invalid_request", f"The request's head is larger than {MAX_HEAD_BYTES} bytes.")

    def _count_within(self, size: int) -> None:
        """Count what the parser keeps to itself: an incomplete header, sizes and extensions of chunks."""
        if self._place == "head":
            self._count_head(size)
        elif self._place == "body":
            self._framing_bytes += size
            if self._framing_bytes > MAX_FRAMING_BYTES:
                raise Refusal("invalid_request", "The chunks of the body have too much around them.")

    def _is_answering(self) -> bool:
        return self._active is not None and not self._active.response_complete

    def _refuse(self, refusal: Refusal) -> None:
        """End the connection with `refusal`, after the answers to complete requests that are still due."""
        self._disarm()
        self._refusal = refusal
        if self._place == "body":
            if self._active is self.cycle:
                self._end_active()
                self._active = None
                if self.cycle.response_started:
                    self._hang_up()
                    return
            else:
                self.pipeline.popleft()  # the newest
        if not self._is_answering():
            self._send_refusal(refusal)

    def _send_refusal(self, refusal: Refusal) -> None:
        """In the form of all our errors; such a request has no trace but the one made here."""
        if self.transport.is_closing():
            return
        trace_id, status = secrets.token_hex(16), refusal.row.status
        headers, data = head_of(refusal, trace_id)
        lines = [
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}".encode(),
            *(name + b": " + value for name, value in headers),
            b"x-trace-id: " + trace_id.encode(),
            b"connection: close",
            b"",
            b"" if self._place == "head" and self.parser.get_method() == b"HEAD" else data,
        ]
        self.transport.write(b"\r\n".join(lines))
        reason = refusal.detail
        logs.get_logger("gateway").info("request_refused", trace_id=trace_id, status=status, reason=reason)
        self._hang_up()

    def _hang_up(self) -> None:
        """Send the end, and read for another moment.

        Closing on unread bytes resets the connection, and the answer may be lost.
        """
        self._disarm()
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.flow.resume_reading()
            self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._late, seconds)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self, seconds: float) -> None:
        """Time in which we did not read, or in which an answer is due anyway, is not the client's."""
        self._timer = None
        if self.flow.read_paused or (self._place != "body" and self._is_answering()):
            self._arm(seconds)
        elif self._place == "between":
            self.transport.close()
        else:
            self._refuse(Refusal("invalid_request", f"The {self._place} did not arrive in time."))


def _refusal_in(error: httptools.HttpParserError) -> Refusal:
    """What was raised in a callback, or what the parser itself does not take."""
    if isinstance(error.__context__, Refusal):
        return error.__context__
    if isinstance(error, httptools.HttpParserCallbackError):
        return Refusal("invalid_request", "The request is not valid HTTP.")
    return Refusal("invalid_request", f"The request is not valid HTTP: {error}")
