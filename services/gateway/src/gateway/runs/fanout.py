"""From one bus subscription for each trace to any number of readers of it."""

import asyncio
import contextlib
from collections.abc import Callable

from bus import BusUnavailable, Subscription, Traces
from contracts import frames

Deliver = Callable[[frames.Frame], None]


class _Topic:
    def __init__(self) -> None:
        self.readers: list[Deliver] = []
        self.subscribing: asyncio.Future[Subscription] | None = None

    def deliver(self, frame: frames.Frame) -> None:
        for reader in tuple(self.readers):
            reader(frame)


class Fanout:
    """Decodes each frame once, however many readers its trace has here."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._topics: dict[str, _Topic] = {}

    async def join(self, trace_id: str, deliver: Deliver) -> None:
        """Have `deliver` called with each frame of the trace from now on. Raises BusUnavailable."""
        topic = self._topics.setdefault(trace_id, _Topic())
        topic.readers.append(deliver)
        if topic.subscribing is None:
            topic.subscribing = asyncio.ensure_future(self._traces.follow_trace(trace_id, topic.deliver))
        await asyncio.shield(topic.subscribing)

    async def leave(self, trace_id: str, deliver: Deliver) -> None:
        """Undo a `join`; with its last reader the subscription ends."""
        topic = self._topics.get(trace_id)
        if topic is None or deliver not in topic.readers:
            return
        topic.readers.remove(deliver)
        if not topic.readers:
            del self._topics[trace_id]
            if topic.subscribing is not None:
                with contextlib.suppress(BusUnavailable):
                    await (await topic.subscribing).close()

    def __len__(self) -> int:
        """How many traces are followed."""
        return len(self._topics)
