"""The body of an answer while it comes, handed over piece by piece where it is read from the socket.

A task that is woken for each piece would be half of what a delta costs (docs/change/performance.md).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from runtime.http.answer import Taker


class Body(Protocol):
    """Bytes that are still coming."""

    async def each(self, taker: Taker) -> None:
        """Hand over each piece until `taker` is done, or there are no more.

        Raises what `taker` raises, and OSError or what else the connection breaks with.
        """

    async def rest(self, seconds: float) -> None:
        """Drop what is left, for so long at most: a body that was read to its end leaves a connection that
        the next call can use. Raises nothing but a cancellation.
        """


class IteratedBody:
    """The body of an SDK's answer."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def each(self, taker: Taker) -> None:
        """As `Body.each`."""
        async for piece in self._pieces:
            later = taker.take(piece)
            if later is not None:
                await later()
            if taker.done:
                break

    async def rest(self, seconds: float) -> None:
        """As `Body.rest`."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(seconds):
                async for _ in self._pieces:
                    pass
