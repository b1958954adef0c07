"""Run the asynchronous implementation without an event loop: everything that it awaits blocks.

A coroutine that never suspends runs to its end in one step. So the blocking client needs no thread, works
where a loop is already running, and accepts an `httpx.Client` of the caller.
"""

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar, cast

import httpx

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that awaits only blocking calls."""
    try:
        work.send(None)
    except StopIteration as finished:
        return cast(T, finished.value)
    work.close()
    raise RuntimeError("The coroutine awaits something that does not block.")


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous iterator that awaits only blocking calls."""

    async def take_next() -> T:
        return await anext(items)

    while True:
        try:
            item = run(take_next())
        except StopAsyncIteration:
            return
        yield item


class BlockingHttp:
    """The part of `httpx.AsyncClient` that the client uses, on an `httpx.Client`."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.build_request = client.build_request

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request. The response's stream blocks too."""
        response = self._client.send(request, **options)
        response.stream = _BlockingStream(cast(httpx.SyncByteStream, response.stream))
        return response

    async def aclose(self) -> None:
        """Close the `httpx.Client`."""
        self._client.close()


class _BlockingStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._stream:
            yield chunk

    async def aclose(self) -> None:
        self._stream.close()
