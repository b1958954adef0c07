"""What handlers return, as bytes."""

from typing import Any, TypeVar

from litestar import Response
from litestar.types import Scope

from contracts import wire
from gateway.http import exchange, problem_responses
from gateway.http.problem_responses import Refusal

T = TypeVar("T")


class JsonAnswer(Response[T]):
    """A complete answer: JSON of our own encoder, or bytes as they are. Sent as `Exchange.answer` does."""

    def to_asgi_response(self, *_: Any, **settled: Any) -> Any:
        """The application that sends it; `settled` is what the handler's decorator says."""
        status = self.status_code or settled.get("status_code") or 200
        media_type = str(self.media_type or settled.get("media_type") or "application/json")
        headers = tuple((name.lower().encode(), str(value).encode()) for name, value in self.headers.items())
        content = self.content
        data = content if isinstance(content, bytes) else b"" if status == 204 else wire.encode(content)

        async def send(scope: Scope, *_: Any, **__: Any) -> None:
            current = exchange.of(scope)
            if status == 204:
                await current.start(204, [*headers])
                await current.body(b"")
            else:
                await current.answer(status, media_type.encode(), data, headers)

        return send


class ProblemAnswer(Response[None]):
    """A refusal in the words of its address. What the request holds is let go before."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(None)
        self._refusal = refusal

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The application that sends it."""

        async def send(scope: Scope, *_: Any, **__: Any) -> None:
            current = exchange.of(scope)
            await current.held.aclose()
            await problem_responses.answer(current, self._refusal)

        return send


class NoAnswer(Response[None]):
    """Nobody waits for an answer."""

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """An application that does nothing."""

        async def send(*_: Any, **__: Any) -> None:
            """Nothing is sent."""

        return send
