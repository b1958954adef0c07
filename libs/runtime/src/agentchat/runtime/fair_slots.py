"""Share slots for concurrent work among keys such as accounts, so that no key keeps others waiting.

A key may take a slot while it holds fewer than are free ("dynamic thresholds": Choudhury and Hahne, 1998). A
single key gets half of all slots; k keys that want as many as they can get have 1/(k + 1) each. So a slot is
left for a key that holds none as long as there are fewer keys than slots; beyond that they take turns.
"""

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable


class SlotsClosed(Exception):  # noqa: N818 - an outcome
    """No slot is given any more, to callers that wait or come later."""


class FairSlots:
    """A number of slots on one event loop, shared fairly among keys."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._held: Counter[Hashable] = Counter()
        # The most recently served key is last.
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self._closed = False

    @property
    def idle(self) -> bool:
        """True if no slot is held and nobody waits."""
        return not self._held and not self._waiting

    def try_take(self, key: Hashable) -> bool:
        """Take a slot if one is available to the key now, ahead of callers that wait.

        Give it back with `release`.
        """
        if self._held[key] >= self._free:
            return False
        self._free -= 1
        self._held[key] += 1
        return True

    async def take(self, key: Hashable) -> None:
        """Take a slot as soon as one is available to the key.

        Give it back with `release`. Raises SlotsClosed.
        """
        if self._closed:
            raise SlotsClosed
        if key not in self._waiting and self.try_take(key):
            return
        slot = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.cancelled():
                self._leave(key, slot)
            elif slot.exception() is None:
                self.release(key)
            raise

    def release(self, key: Hashable) -> None:
        """Give a slot back and serve callers that wait."""
        self._free += 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        while self._serve_next():
            pass

    @contextlib.asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for a slot and hold it within the block. Raises SlotsClosed."""
        await self.take(key)
        try:
            yield
        finally:
            self.release(key)

    def close(self) -> None:
        """Make all waiting callers raise SlotsClosed. Slots that are held stay."""
        self._closed = True
        for slots in self._waiting.values():
            for slot in slots:
                if not slot.done():
                    slot.set_exception(SlotsClosed())
        self._waiting.clear()

    def _serve_next(self) -> bool:
        for key, slots in tuple(self._waiting.items()):
            while slots and slots[0].cancelled():  # its caller has not removed it yet
                slots.popleft()
            if not slots:
                del self._waiting[key]
            elif self.try_take(key):
                slots.popleft().set_result(None)
                self._waiting.move_to_end(key)
                return True
        return False

    def _leave(self, key: Hashable, slot: asyncio.Future[None]) -> None:
        slots = self._waiting.get(key, deque())
        with contextlib.suppress(ValueError):  # `_serve_next` has removed it
            slots.remove(slot)
        if not slots:
            self._waiting.pop(key, None)


class KeySlots:
    """The slots of one key."""

    def __init__(self, slots: FairSlots, key: Hashable) -> None:
        self._slots = slots
        self._key = key

    async def take(self) -> None:
        """Take a slot. Raises SlotsClosed."""
        await self._slots.take(self._key)

    def release(self) -> None:
        """Give a slot back."""
        self._slots.release(self._key)
