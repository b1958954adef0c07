"""Publish to and consume the work queues REQUESTS and TOOLS, and handle messages that kept failing.

A message past its last delivery is handled once, copied to DEAD and removed from its queue.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from agentchat.bus.connection import Connection
from agentchat.bus.jetstream import JetStream
from agentchat.bus.queue_consumer import Handle, QueueConsumer, QueueDelivery
from agentchat.bus.stream_settings import ADVISORIES
from agentchat.contracts import messages, subjects, tool_messages, wire
from agentchat.runtime import logs
from agentchat.runtime.readiness_flag import ReadinessFlag

Queue = Literal["REQUESTS", "TOOLS"]


class ExhaustedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was delivered `deliveries` times without being settled."""

    stream: str
    subject: str
    data: bytes
    deliveries: int


class _Advisory(msgspec.Struct):
    """An advisory of nats-server at max_deliver (its schema io.nats.jetstream.advisory.v1.max_deliver)."""

    stream: str
    stream_seq: int
    deliveries: int


async def publish_dead_letter(jetstream: JetStream, message: messages.DeadLettered) -> None:
    """Copy a message to DEAD, acknowledged. The same message within two minutes is kept once."""
    payload = wire.encode(message)
    subject = subjects.format_dead(message.stream)
    await jetstream.publish(subject, payload, f"{subject}:{hashlib.sha256(payload).hexdigest()}")


async def handle_advisory(
    jetstream: JetStream, delivery: QueueDelivery, handle: Callable[[ExhaustedMessage], Awaitable[None]]
) -> None:
    """Handle one advisory. Raises if a step failed, so that the advisory is delivered again."""
    try:
        advisory = msgspec.json.decode(delivery.data, type=_Advisory)
    except msgspec.DecodeError:
        logs.get_logger("bus").warning("advisory_undecodable")
        return
    message = await jetstream.get_message(advisory.stream, advisory.stream_seq)
    if message is None:
        return
    await handle(
        ExhaustedMessage(
            stream=advisory.stream,
            subject=message.subject,
            data=message.data,
            deliveries=advisory.deliveries,
        )
    )
    reason = f"not settled in {advisory.deliveries} deliveries"
    await publish_dead_letter(
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
    """The messages of a work queue that were never delivered, because no worker has had a free slot.

    `oldest_seconds` is the age of the oldest by the server's clock. Messages that were delivered and put back
    do not count.
    """

    waiting: int
    oldest_seconds: float = 0.0


class Queues:
    """The work queues. Methods raise BusUnavailable unless they state otherwise."""

    def __init__(self, connection: Connection, jetstream: JetStream) -> None:
        self._connection = connection
        self._jetstream = jetstream

    async def request_chat(self, message: messages.ChatRequested) -> None:
        """Queue a chat request, acknowledged within 2 s. Handled by `orchestrator.inbox.inbox`."""
        await self._jetstream.publish(
            subjects.format_requests(message.account_id),
            wire.encode(message),
            f"{message.trace_id}:{message.attempt}",
        )

    async def request_tool(self, message: tool_messages.ToolRequested) -> None:
        """Queue a tool call, acknowledged within 2 s. Handled by `tool_runner.calls.handler`."""
        await self._jetstream.publish(
            subjects.format_tool_requests(message.trace_id),
            wire.encode(message),
            f"{message.trace_id}:{subjects.format_token(message.leg_id)}",
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
        """Handle a queue's messages, `slots` at a time, until `stop` is set and the handlers are done.

        A handler that will wait for long may free its slot: `QueueDelivery.free_slot`. While a handler runs,
        its message is kept from other workers. If a handler raises, that is logged and its message is
        delivered again after 1 s, later up to 10 s. While not ready, no further message is taken.
        """
        await QueueConsumer(self._connection, self._jetstream, stream, handle, slots, readiness).run(stop)

    async def measure_backlog(self, stream: Queue) -> Backlog:
        """Count the waiting messages of a queue and measure the age of the oldest."""
        state = await self._jetstream.get_consumer_state(stream)
        if not state.num_pending:
            return Backlog(waiting=0)
        oldest = await self._jetstream.get_next_message(stream, ">", state.delivered.stream_seq + 1)
        if oldest is None:  # a worker has just taken it
            return Backlog(waiting=0)
        age = (state.ts - oldest.stored_at).total_seconds()
        return Backlog(waiting=state.num_pending, oldest_seconds=max(0.0, age))

    async def follow_max_deliveries(
        self, handle: Callable[[ExhaustedMessage], Awaitable[None]], *, stop: asyncio.Event
    ) -> None:
        """Handle, until `stop`, the messages of both queues that were delivered 50 times without success.

        After `handle` returns, the message is copied to DEAD and removed; if it raises, it is called again.
        """

        async def on_advisory(delivery: QueueDelivery) -> None:
            await handle_advisory(self._jetstream, delivery, handle)

        await QueueConsumer(self._connection, self._jetstream, ADVISORIES, on_advisory, slots=1).run(stop)

    async def publish_dead_letter(self, message: messages.DeadLettered) -> None:
        """Copy a message to DEAD."""
        await publish_dead_letter(self._jetstream, message)
