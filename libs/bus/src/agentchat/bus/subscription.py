"""Follow subjects on core NATS, and read back from a stream what was missed while disconnected."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from nats.aio.subscription import Subscription as NatsSubscription

from agentchat.bus.connection import Connection
from agentchat.bus.errors import BusUnavailable

ReadBack = Callable[[], Awaitable[None]]
"""Delivers the messages that the subject's stream holds. Raises BusUnavailable."""

_AGAIN_SECONDS = 0.5


class Subscription:
    """A subscription that survives reconnects, until `close`.

    With `read_back` it misses nothing that its stream still holds: the stream's messages are delivered again
    after each reconnect, so the receiver gets some messages twice.
    """

    def __init__(
        self, connection: Connection, subscription: NatsSubscription, read_back: ReadBack | None = None
    ) -> None:
        self._connection = connection
        self._subscription = subscription
        self._read_back = read_back
        self._reading: asyncio.Task[None] | None = None
        self._closed = False
        self._stop_listening = connection.add_listener(self.look_again) if read_back else None

    @property
    def is_complete(self) -> bool:
        """True once the earlier messages were delivered too: after `look_again`, or after a reconnect's."""
        return self._reading is not None and self._reading.done() and not self._closed

    def look_again(self) -> None:
        """Start delivering what the stream holds, retrying until NATS can be asked."""
        if self._read_back is not None and not self._closed:
            self._stop_reading()
            self._reading = asyncio.create_task(self._read(self._read_back))

    async def close(self) -> None:
        """Stop following: nothing is delivered after this call has started. Never raises."""
        self._closed = True
        if self._stop_listening is not None:
            self._stop_listening()
        self._stop_reading()
        await self._connection.unsubscribe(self._subscription)

    async def _read(self, read_back: ReadBack) -> None:
        while not self._connection.client.is_closed:
            with contextlib.suppress(BusUnavailable):
                await read_back()
                return
            await asyncio.sleep(_AGAIN_SECONDS)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
