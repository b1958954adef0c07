"""Connect to NATS and provide the parts of the bus: `Bus`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from agentchat.bus import connection, nats_users
from agentchat.bus.connection import Connection
from agentchat.bus.eraser import Eraser
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.feed_stream import Feed
from agentchat.bus.jetstream import JetStream
from agentchat.bus.rpc import Rpc
from agentchat.bus.trace_channel import Traces
from agentchat.bus.work_queues import Queues
from agentchat.runtime.retry_loops import retry, wait_for_event

_PING_SECONDS = 1.5
_LOOK_SECONDS = 2.0
_LOOKS = 15
"""Every 15th look checks each stream and consumer, a dozen calls; the others only compare their numbers."""


class Bus:
    """One connection to NATS and the parts that use it.

    `queues`: the work queues; `traces`: frames, tool results and cancellations of runs; `rpc`: request and
    reply; `feed`: the EVENTS stream; `eraser`: removes erased conversations from the streams.
    """

    def __init__(self, link: Connection, replicas: int = 1) -> None:
        self._connection = link
        self._jetstream = JetStream(link, replicas)
        self.queues = Queues(link, self._jetstream)
        self.traces = Traces(link, self._jetstream)
        self.rpc = Rpc(link)
        self.feed = Feed(link, self._jetstream)
        self.eraser = Eraser(self._jetstream)

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls, url: str, *, name: str, on_lost: Callable[[], None] | None = None, replicas: int = 1
    ) -> AsyncIterator["Bus"]:
        """Connect within 30 s and, if the user may, provision streams and consumers while the block runs.

        The connection reconnects for ever. `on_lost` is called if that ends all the same; the process must
        then stop and be started again. Streams with fewer than `replicas` (1, 3 or 5) are raised to that
        number.
        """
        async with connection.connect(url, name, on_lost) as link:
            bus = cls(link, replicas)
            await bus._provision_at_start()
            provisioning = asyncio.create_task(bus._provision_after_reconnects())
            try:
                yield bus
            finally:
                provisioning.cancel()

    async def ping(self) -> None:
        """Check that JetStream answers. Raises BusUnavailable."""
        await self._jetstream.count_entities(seconds=_PING_SECONDS)

    def on_reconnect(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each reconnect; call the returned function to stop that."""
        return self._connection.add_listener(listener)

    async def _provision_at_start(self) -> None:
        """Retry for a while: JetStream may need a moment longer than the server's port."""
        await retry(
            self._jetstream.provision,
            BusUnavailable,
            pause_seconds=connection.RECONNECT_SECONDS,
            seconds=connection.CONNECT_SECONDS,
        )

    async def _provision_after_reconnects(self) -> None:
        """Provision again after reconnects, since NATS may come back with an empty store.

        The provisioner also looks from time to time without a reconnect.
        """
        look = _LOOK_SECONDS if self._connection.user == nats_users.PROVISIONER else None
        back = asyncio.Event()
        remove = self._connection.add_listener(back.set)
        made, looks = None, 0
        try:
            while True:
                await wait_for_event(back, look)
                looks += 1
                with contextlib.suppress(BusUnavailable):
                    if (
                        not back.is_set()
                        and looks % _LOOKS
                        and await self._jetstream.count_entities() == made
                    ):
                        continue
                    back.clear()
                    await self._provision_at_start()
                    made = await self._jetstream.count_entities()
        finally:
            remove()
