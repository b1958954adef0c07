"""The work queues REQUESTS and TOOLS: publishing, working them off, and what was delivered in vain."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from bus import dead_letters, streams
from bus.backlog import Backlog, backlog_of
from bus.connection import Connection
from bus.consume import Consumption, Handle
from bus.delivery import Delivery
from bus.jetstream import JetStream
from contracts import messages, subjects, tool_messages, wire
from runtime.readiness import ReadinessFlag

Queue = Literal["REQUESTS", "TOOLS"]


class Queues:
    """Calls raise BusUnavailable where nothing else is said."""

    def __init__(self, connection: Connection, jetstream: JetStream) -> None:
        self._connection = connection
        self._jetstream = jetstream

    async def request_chat(self, message: messages.ChatRequested) -> None:
        """Queue a chat request, acknowledged within 2 s."""
        await self._jetstream.publish(
            subjects.requests(message.account_id),
            wire.encode(message),
            f"{message.trace_id}:{message.attempt}",
        )

    async def request_tool(self, message: tool_messages.ToolRequested) -> None:
        """Queue a tool call, acknowledged within 2 s."""
        await self._jetstream.publish(
            subjects.tool_requests(message.trace_id),
            wire.encode(message),
            f"{message.trace_id}:{subjects.token(message.leg_id)}",
        )

    async def consume(
        self,
        stream: Queue,
        handle: Handle,
        *,
        slots: int,
        stop: asyncio.Event,
        readiness: ReadinessFlag | None = None,
    ) -> None:
        """Work off a queue, `slots` messages at a time, until `stop` is set and the handlers are done.

        A handler that will wait for long may free its slot: `Delivery.free_slot`.
        While a handler runs its message is kept from others. A handler that raises is logged, and its
        message comes again after 1 s, later up to 10 s. While not ready it takes no further message.
        """
        await Consumption(self._connection, self._jetstream, stream, handle, slots, readiness).run(stop)

    async def backlog(self, stream: Queue) -> Backlog:
        """What no worker has had a slot for yet."""
        return await backlog_of(self._jetstream, stream)

    async def follow_max_deliveries(
        self, handle: Callable[[dead_letters.Exhausted], Awaitable[None]], *, stop: asyncio.Event
    ) -> None:
        """Work off, until `stop`, the messages of both queues that were delivered 50 times in vain.

        After `handle` returns the message is copied to DEAD and removed; when it raises, it comes again.
        """

        async def on_advisory(delivery: Delivery) -> None:
            await dead_letters.handle_advisory(self._jetstream, delivery, handle)

        await Consumption(self._connection, self._jetstream, streams.ADVISORIES, on_advisory, slots=1).run(
            stop
        )

    async def dead_letter(self, message: messages.DeadLettered) -> None:
        """Copy a message to DEAD, acknowledged within 2 s."""
        await dead_letters.dead_letter(self._jetstream, message)
