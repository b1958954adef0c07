"""The work queues REQUESTS and TOOLS: publishing, working them off, and what was delivered in vain.

A message past its last delivery is handled once, copied to DEAD and taken from its queue.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from agentchat.bus import streams
from agentchat.bus.connection import Connection
from agentchat.bus.jetstream import JetStream
from agentchat.bus.work_queue import Consumption, Delivery, Handle
from agentchat.contracts import messages, subjects, tool_messages, wire
from agentchat.runtime import logs
from agentchat.runtime.readiness import ReadinessFlag

Queue = Literal["REQUESTS", "TOOLS"]


class Exhausted(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was delivered `deliveries` times without being settled."""

    stream: str
    subject: str
    data: bytes
    deliveries: int


class _Advisory(msgspec.Struct):
    """What nats-server publishes at max_deliver (its schema io.nats.jetstream.advisory.v1.max_deliver)."""

    stream: str
    stream_seq: int
    deliveries: int


async def dead_letter(jetstream: JetStream, message: messages.DeadLettered) -> None:
    """Copy a message to DEAD, acknowledged; the same message within two minutes is kept once."""
    payload = wire.encode(message)
    subject = subjects.dead(message.stream)
    await jetstream.publish(subject, payload, f"{subject}:{hashlib.sha256(payload).hexdigest()}")


async def handle_advisory(
    jetstream: JetStream, delivery: Delivery, handle: Callable[[Exhausted], Awaitable[None]]
) -> None:
    """Work off one advisory; raises when a step failed, so that the advisory comes again."""
    try:
        advisory = msgspec.json.decode(delivery.data, type=_Advisory)
    except msgspec.DecodeError:
        logs.get_logger("bus").warning("advisory_undecodable")
        return
    message = await jetstream.message(advisory.stream, advisory.stream_seq)
    if message is None:
        return
    await handle(
        Exhausted(
            stream=advisory.stream,
            subject=message.subject,
            data=message.data,
            deliveries=advisory.deliveries,
        )
    )
    reason = f"not settled in {advisory.deliveries} deliveries"
    await dead_letter(
        jetstream,
        messages.DeadLettered(
            stream=advisory.stream,
            subject=message.subject,
            reason=reason,
            payload=message.data.decode("utf-8", "replace"),
        ),
    )
    await jetstream.delete(advisory.stream, advisory.stream_seq)


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in a work queue because no worker has had a slot for it.

    `waiting` messages were never delivered; the oldest has waited so many seconds by the server's clock.
    What was delivered and put back does not count.
    """

    waiting: int
    oldest_seconds: float = 0.0


class Queues:
    """Calls raise BusUnavailable unless they state otherwise."""

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
        state = await self._jetstream.consumer(stream)
        if not state.num_pending:
            return Backlog(waiting=0)
        oldest = await self._jetstream.next_message(stream, ">", state.delivered.stream_seq + 1)
        if oldest is None:  # taken meanwhile
            return Backlog(waiting=0)
        age = (state.ts - oldest.stored_at).total_seconds()
        return Backlog(waiting=state.num_pending, oldest_seconds=max(0.0, age))

    async def follow_max_deliveries(
        self, handle: Callable[[Exhausted], Awaitable[None]], *, stop: asyncio.Event
    ) -> None:
        """Work off, until `stop`, the messages of both queues that were delivered 50 times in vain.

        After `handle` returns the message is copied to DEAD and removed; when it raises, it comes again.
        """

        async def on_advisory(delivery: Delivery) -> None:
            await handle_advisory(self._jetstream, delivery, handle)

        await Consumption(self._connection, self._jetstream, streams.ADVISORIES, on_advisory, slots=1).run(
            stop
        )

    async def dead_letter(self, message: messages.DeadLettered) -> None:
        await dead_letter(self._jetstream, message)
