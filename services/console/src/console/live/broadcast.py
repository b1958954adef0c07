"""Server-sent events, rendered once and sent to every browser that looks at the same."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator

BEAT_SECONDS = 5.0
"""A browser that hears nothing for more than twice as long says that the page is frozen."""

BEAT = b"event: beat\ndata:\n\n"
_MOST_WAITING = 32
_MOST_OF_SESSION = 20
_MOST_OF_PROCESS = 1_000


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

    async def read(self, first: bytes | None = None) -> AsyncGenerator[bytes, None]:
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


class OpenStreams:
    """How many streams each session holds open at this process."""

    def __init__(
        self, most_of_session: int = _MOST_OF_SESSION, most_of_process: int = _MOST_OF_PROCESS
    ) -> None:
        self._most_of_session, self._most_of_process = most_of_session, most_of_process
        self._open: Counter[str] = Counter()

    def refusal(self, session_id: str) -> str | None:
        """Why the session may not have one more."""
        if self._open[session_id] >= self._most_of_session:
            return (
                f"You have {self._most_of_session} live pages open, and nobody may have more. "
                "Close some, and load this one again."
            )
        if self._open.total() >= self._most_of_process:
            return (
                f"{self._most_of_process:,} live pages are open at this console, and it takes no more. Load "
                "this one again later."
            )
        return None

    async def counted(
        self, session_id: str, events: AsyncGenerator[bytes, None], seconds: float | None
    ) -> AsyncGenerator[bytes, None]:
        """The events, one stream more of the session until their end, or until so many seconds are over."""
        ends = float("inf") if seconds is None else time.monotonic() + seconds
        self._open[session_id] += 1
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    if time.monotonic() >= ends:
                        return
                    yield event
        finally:
            self._open[session_id] -= 1
            self._open += Counter()  # without the sessions that have none
