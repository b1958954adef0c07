"""An HTTP server that answers what a test has written down, byte for byte, and keeps what it was asked."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

TRACE = "11111111111111111111111111111111"
_JSON = {"Content-Type": "application/json", "X-Trace-Id": TRACE}
_SSE = {"Content-Type": "text/event-stream", "X-Trace-Id": TRACE}


@dataclass(frozen=True)
class Answer:
    """The bytes to send, and what happens to the connection after them."""

    data: bytes
    then: Literal["keep", "close", "reset"] = "keep"


@dataclass(frozen=True)
class Request:
    """A request, header names in lower case; `connection` counts from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


RESET = Answer(b"", "reset")
"""The connection is reset without a byte of an answer."""


def as_json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Build a JSON answer with its trace."""
    return respond_plain(json.dumps(value).encode(), status, _JSON | (headers or {}))


def respond_plain(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Build any answer with a Content-Length."""
    return Answer(_head(status, {**(headers or {}), "Content-Length": str(len(body))}) + body)


def respond_problem(
    status: int, code: str, *, headers: dict[str, str] | None = None, errors: Iterable[object] = ()
) -> Answer:
    """Build a refusal of the service."""
    body: dict[str, object] = {
        "type": f"https://agentchat.example/errors#{code}",
        "title": "A title",
        "status": status,
        "detail": f"What {code} means here.",
        "code": code,
        "trace_id": TRACE,
    }
    listed = list(errors)
    if listed:
        body["errors"] = listed
    return as_json(body, status, {"Content-Type": "application/problem+json", **(headers or {})})


def split_chunks(*pieces: bytes, headers: dict[str, str] | None = None) -> Answer:
    """Build a stream in chunks of exactly these pieces, with its end."""
    complete = stop_unfinished(*pieces, headers=headers)
    return Answer(complete.data + b"0\r\n\r\n")


def stop_unfinished(
    *pieces: bytes,
    then: Literal["keep", "close", "reset"] = "keep",
    headers: dict[str, str] | None = None,
) -> Answer:
    """Build a stream in chunks whose end is missing."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return Answer(_head(200, _SSE | {"Transfer-Encoding": "chunked"} | (headers or {})) + body, then)


def encode_lines(*events: object) -> bytes:
    """Encode events as the service writes them."""
    return b"".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in events)


class ScriptedServer:
    """Gives each request the next answer of its script, on connections that stay open."""

    def __init__(self, *script: Answer) -> None:
        self.requests: list[Request] = []
        self._script = list(script)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> "ScriptedServer":
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        _shut(self._listening)
        with self._lock:
            for connection in self._open:
                _shut(connection)
        for thread in self._threads:
            thread.join(5)
        self._listening.close()

    def _start(self, target: Any, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                number += 1
                with self._lock:
                    self._open.add(connection)
                self._start(self._answer_requests, connection, number)

    def _answer_requests(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as received, contextlib.suppress(OSError):
            for request in _read_requests(received, number):
                answer = self._choose_answer(request)
                connection.sendall(answer.data)
                if answer.then == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if answer.then != "keep":
                    break
        with self._lock:
            self._open.discard(connection)

    def _choose_answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            return self._script.pop(0) if self._script else respond_problem(418, "script_at_its_end")


def _read_requests(received: Any, connection: int) -> Iterator[Request]:
    while first := received.readline():
        method, target, _ = first.decode().split(" ")
        headers = {}
        while line := received.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = received.read(int(headers.get("content-length", 0)))
        yield Request(method, target, headers, body, connection)


def _head(status: int, headers: dict[str, str]) -> bytes:
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode()


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
