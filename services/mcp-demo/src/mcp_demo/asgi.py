"""The little of ASGI that the endpoint needs: read a body, replay one, keep a response, look at headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Capture:
    """A `send` that keeps the response: its status and its whole body."""

    def __init__(self) -> None:
        self.status = 500
        self.body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """The body; None if it has more than `limit` bytes, cut short if the client left."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives this whole body first."""
    waiting = [body]

    async def replayed() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replayed


def values(scope: Scope, name: bytes) -> list[str]:
    """The values of a header, one for each time it was sent."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def with_headers(scope: Scope, headers: dict[bytes, bytes]) -> Scope:
    """A copy of the scope in which these headers stand once, and the body is not chunked."""
    kept = [
        (key, value)
        for key, value in scope["headers"]
        if key.lower() not in headers and key.lower() != b"transfer-encoding"
    ]
    return {**scope, "headers": kept + list(headers.items())}
