"""From one bus subscription for each trace to any number of readers of it."""

from collections.abc import Callable

from bus import Bus, Subscription
from contracts import frames

Deliver = Callable[[frames.Frame], None]


class _Topic:
    def __init__(self) -> None:
        self.readers: list[Deliver] = []
        self.subscription: Subscription | None = None

    def deliver(self, frame: frames.Frame) -> None:
        for reader in tuple(self.readers):
            reader(frame)


class Fanout:
    """Decodes each frame once, however many readers its trace has here."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._topics: dict[str, _Topic] = {}

    async def join(self, trace_id: str, deliver: Deliver) -> None:
        """Have `deliver` called with each frame of the trace from now on."""
        topic = self._topics.get(trace_id)
        if topic is None:
            topic = self._topics[trace_id] = _Topic()
            topic.readers.append(deliver)
            topic.subscription = await self._bus.follow_trace(trace_id, topic.deliver)
        else:
            topic.readers.append(deliver)

    async def leave(self, trace_id: str, deliver: Deliver) -> None:
        """Undo a `join`; with its last reader the subscription ends."""
        topic = self._topics.get(trace_id)
        if topic is None:
            return
        topic.readers.remove(deliver)
        if not topic.readers:
            del self._topics[trace_id]
            if topic.subscription is not None:
                await topic.subscription.close()

    def __len__(self) -> int:
        """How many traces are followed."""
        return len(self._topics)
