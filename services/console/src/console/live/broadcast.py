"""Server-sent events, rendered once and sent to every browser that looks at the same."""

import asyncio
from collections.abc import AsyncIterator

from litestar.response import Stream

BEAT_SECONDS = 5.0
"""A browser that hears nothing for more than twice as long says that the page is frozen."""

BEAT = b"event: beat\ndata:\n\n"
_MOST_WAITING = 32
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def message(html: str) -> bytes:
    """Parts of a page, each an `<hx-partial>` that names its target, as one event."""
    return "".join(f"data: {line}\n" for line in html.splitlines()).encode() + b"\n"


class Broadcast:
    """Readers and what they are sent. One that does not keep up is ended, and begins again with all."""

    def __init__(self) -> None:
        self._readers: dict[asyncio.Queue[bytes | None], None] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def send(self, event: bytes) -> None:
        for reader in tuple(self._readers):
            try:
                reader.put_nowait(event)
            except asyncio.QueueFull:
                self._end(reader)

    def close(self) -> None:
        for reader in tuple(self._readers):
            self._end(reader)

    async def read(self, first: bytes | None = None) -> AsyncIterator[bytes]:
        """`first`, events from now on, and beats while there are none."""
        reader: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        self._readers[reader] = None
        try:
            if first is not None:
                yield first
            while True:
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        event = await reader.get()
                except TimeoutError:
                    event = BEAT
                if event is None:
                    return
                yield event
        finally:
            self._readers.pop(reader, None)

    def _end(self, reader: "asyncio.Queue[bytes | None]") -> None:
        """What waits is thrown away: the end comes next."""
        self._readers.pop(reader, None)
        while not reader.empty():
            reader.get_nowait()
        reader.put_nowait(None)


def stream(events: AsyncIterator[bytes]) -> Stream:
    return Stream(events, media_type="text/event-stream", headers=_HEADERS)
