"""`Bus`: one connection to NATS, and what can be done on it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from agentchat.bus import connection, users
from agentchat.bus.connection import Connection
from agentchat.bus.eraser import Eraser
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.feed_stream import Feed
from agentchat.bus.jetstream import JetStream
from agentchat.bus.queues import Queues
from agentchat.bus.rpc import Rpc
from agentchat.bus.traces import Traces
from agentchat.runtime.following import wait_for_event

_PING_SECONDS = 1.5
_LOOK_SECONDS = 2.0
_LOOKS = 15
"""Every 15th look is at each stream and consumer, a dozen calls; the others see whether any came or went."""


class Bus:
    """One connection to NATS. Its parts are made once, for whoever uses them to hold.

    `queues`: the work queues; `traces`: frames, tool results and cancellations of runs; `rpc`: request and
    reply; `feed`: the EVENTS stream; `eraser`: what an erasure removes from the streams.
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
        """Connect (within 30 s) and, if the user may, provision streams and consumers while the block runs.

        It reconnects for ever. `on_lost` is called should that end all the same; the process is then to stop
        and be started again. Streams with fewer than so many `replicas` (1, 3 or 5) get as many.
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
        """Readiness: JetStream answers. Raises BusUnavailable."""
        await self._jetstream.counts(seconds=_PING_SECONDS)

    def on_reconnect(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the connection is back; call what is returned to end that."""
        return self._connection.add_listener(listener)

    async def _provision_at_start(self) -> None:
        """JetStream may need a moment longer than its port."""
        async with asyncio.timeout(connection.CONNECT_SECONDS):
            while True:
                try:
                    return await self._jetstream.provision()
                except BusUnavailable:
                    await asyncio.sleep(connection.RECONNECT_SECONDS)

    async def _provision_after_reconnects(self) -> None:
        """NATS may have come back with an empty store; whose work this is, looks without that too."""
        look = _LOOK_SECONDS if self._connection.user == users.PROVISIONER else None
        back = asyncio.Event()
        remove = self._connection.add_listener(back.set)
        made, looks = None, 0
        try:
            while True:
                await wait_for_event(back, look)
                looks += 1
                with contextlib.suppress(BusUnavailable, TimeoutError):
                    if not back.is_set() and looks % _LOOKS and await self._jetstream.counts() == made:
                        continue
                    back.clear()
                    await self._provision_at_start()
                    made = await self._jetstream.counts()
        finally:
            remove()
