"""From one bus subscription for each trace to any number of readers of it."""

from collections.abc import Callable

from bus import Subscription, Traces
from contracts import frames

Deliver = Callable[[frames.Frame], None]


class _Topic:
    """The readers of one trace."""

    def __init__(self, traces: Traces, trace_id: str) -> None:
        self.readers: list[Deliver] = []
        self.subscription: Subscription = traces.follow_trace(trace_id, self._deliver)

    def _deliver(self, frame: frames.Frame) -> None:
        for reader in tuple(self.readers):
            reader(frame)


class Fanout:
    """Decodes each frame once, however many readers its trace has here."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._topics: dict[str, _Topic] = {}

    def join(self, trace_id: str, deliver: Deliver) -> None:
        """Have `deliver` called with each frame of the trace from now on. Raises BusUnavailable."""
        topic = self._topics.get(trace_id)
        if topic is None:
            topic = self._topics[trace_id] = _Topic(self._traces, trace_id)
        topic.readers.append(deliver)

    async def leave(self, trace_id: str, deliver: Deliver) -> None:
        """Undo a `join`; with its last reader the subscription ends."""
        topic = self._topics.get(trace_id)
        if topic is None or deliver not in topic.readers:
            return
        topic.readers.remove(deliver)
        if not topic.readers:
            del self._topics[trace_id]
            await topic.subscription.close()

    def __len__(self) -> int:
        """How many traces are followed."""
        return len(self._topics)
