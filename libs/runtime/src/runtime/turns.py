"""Places for work at one time, shared out among keys such as accounts, so that no key keeps others waiting.

A key may take a place while it holds fewer than are free ("dynamic thresholds": Choudhury and Hahne, 1998).
One alone gets half of all; k that want as many as they can get have 1/(k + 1) of all each. So a place is left
for who holds none, as long as there are fewer keys than places; past that they take turns.
"""

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable


class TurnsClosed(Exception):  # noqa: N818 - an outcome
    """No place is given to who waits, or comes, from now on."""


class Turns:
    """Of one event loop."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._held: Counter[Hashable] = Counter()
        # The key that was served last stands last.
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether no place is taken or waited for."""
        return not self._held and not self._waiting

    def try_take(self, key: Hashable) -> bool:
        """Take a place if one may be had now, ahead of those that wait; give it back with `release`."""
        if self._held[key] >= self._free:
            return False
        self._free -= 1
        self._held[key] += 1
        return True

    async def take(self, key: Hashable) -> None:
        """Take a place as soon as one may be had; give it back with `release`. Raises TurnsClosed."""
        if self._closed:
            raise TurnsClosed
        if key not in self._waiting and self.try_take(key):
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._leave(key, place)
            elif place.exception() is None:
                self.release(key)
            raise

    def release(self, key: Hashable) -> None:
        """Give a place back."""
        self._free += 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        while self._serve_next():
            pass

    @contextlib.asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Hold a place within this block, waiting for it. Raises TurnsClosed."""
        await self.take(key)
        try:
            yield
        finally:
            self.release(key)

    def close(self) -> None:
        """End the waiting of all that wait; places that are held are not touched."""
        self._closed = True
        for places in self._waiting.values():
            for place in places:
                if not place.done():
                    place.set_exception(TurnsClosed())
        self._waiting.clear()

    def _serve_next(self) -> bool:
        for key, places in tuple(self._waiting.items()):
            while places and places[0].cancelled():  # it has not left the line yet
                places.popleft()
            if not places:
                del self._waiting[key]
            elif self.try_take(key):
                places.popleft().set_result(None)
                self._waiting.move_to_end(key)
                return True
        return False

    def _leave(self, key: Hashable, place: asyncio.Future[None]) -> None:
        places = self._waiting.get(key, deque())
        with contextlib.suppress(ValueError):  # it was passed over meanwhile
            places.remove(place)
        if not places:
            self._waiting.pop(key, None)


class Share:
    """The places of one key."""

    def __init__(self, turns: Turns, key: Hashable) -> None:
        self._turns = turns
        self._key = key

    async def take(self) -> None:
        """See Turns.take."""
        await self._turns.take(self._key)

    def release(self) -> None:
        """See Turns.release."""
        self._turns.release(self._key)
