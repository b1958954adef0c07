"""`Bus`: everything that services say to NATS, on one connection."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import Literal

from bus import backlog, checks, connection, dead, feed, follow, forget, rpc, streams, users
from bus.connection import Connection
from bus.consume import Consumption, Handle
from bus.delivery import Delivery
from bus.errors import BusUnavailable
from bus.feed import FeedEnd
from bus.jetstream import JetStream
from bus.subscription import Subscription
from bus.traces import Traces
from contracts import frames, messages, subjects, wire
from contracts.feed import FeedEvent
from contracts.wire import M
from runtime.readiness import Readiness

_PING_SECONDS = 1.5
_LOOK_SECONDS = 2.0


class Bus:
    """One connection to NATS. Calls raise BusUnavailable where nothing else is said."""

    def __init__(self, link: Connection, replicas: int = 1) -> None:
        self._connection = link
        self._jetstream = JetStream(link, replicas)
        self._traces = Traces(link, self._jetstream)

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
        """Readiness: JetStream answers."""
        await self._jetstream.call("INFO", seconds=_PING_SECONDS)

    def on_reconnect(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the connection is back; call what is returned to end that."""
        return self._connection.add_listener(listener)

    async def request_chat(self, message: messages.ChatRequested) -> None:
        """Queue a chat request, acknowledged within 2 s."""
        await self._jetstream.publish(
            subjects.requests(message.account_id),
            wire.encode(message),
            f"{message.trace_id}:{message.attempt}",
        )

    async def request_tool(self, message: messages.ToolRequested) -> None:
        """Queue a tool call, acknowledged within 2 s."""
        await self._jetstream.publish(
            subjects.tool_requests(message.trace_id),
            wire.encode(message),
            f"{message.trace_id}:{subjects.token(message.call_id)}",
        )

    async def finish_tool(self, message: messages.ToolFinished) -> None:
        """Publish a tool's result, acknowledged within 2 s."""
        await self._traces.finish_tool(message)

    async def record_tool(self, message: messages.ToolFinished) -> None:
        """Free what a result takes in RESULTS, for good; acknowledged within 2 s."""
        await self._traces.record_tool(message)

    async def cancel(self, message: messages.CancelRequested) -> None:
        """Ask for the end of a run, acknowledged within 2 s."""
        await self._traces.cancel(message)

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        """Send one live frame. Never waits for NATS and never raises.

        A frame that cannot be sent is lost; the counter agentchat.bus.frames_dropped and a warning say so.
        """
        await self._traces.publish_frame(trace_id, frame)

    async def follow_trace(self, trace_id: str, deliver: Callable[[frames.Frame], None]) -> Subscription:
        """Have `deliver` called with each frame from now on; it runs on the loop and must not block.

        Following has begun when this returns: whatever is published later on this connection is seen.
        """
        return await self._traces.follow_trace(trace_id, deliver)

    async def frames_of(self, trace_id: str) -> list[frames.Frame]:
        """What TRACES keeps of a trace, in order; [] if nothing."""
        return await self._traces.frames_of(trace_id)

    async def follow_tool_results(
        self, trace_id: str, deliver: Callable[[messages.ToolFinished], None]
    ) -> Subscription:
        """Have `deliver` called with each tool result of a trace from now on.

        After a reconnect it gets all that RESULTS keeps again, so it may get a result twice.
        """
        return await self._traces.follow_tool_results(trace_id, deliver)

    async def tool_results_of(self, trace_id: str) -> dict[str, messages.ToolFinished]:
        """The tool results that RESULTS keeps of a trace, by call id."""
        return await self._traces.tool_results_of(trace_id)

    async def follow_cancels(self, deliver: Callable[[messages.CancelRequested], None]) -> Subscription:
        """Have `deliver` called with every cancellation from now on, of all runs.

        After a reconnect it gets all that CANCELS keeps again, so it may get a cancellation twice.
        """
        return await self._traces.follow_cancels(deliver)

    async def is_cancelled(self, trace_id: str) -> bool:
        """Whether CANCELS holds a cancellation of the run."""
        return await self._traces.is_cancelled(trace_id)

    async def consume(
        self,
        stream: Literal["REQUESTS", "TOOLS"],
        handle: Handle,
        *,
        slots: int,
        stop: asyncio.Event,
        readiness: Readiness | None = None,
    ) -> None:
        """Work off a queue, `slots` messages at a time, until `stop` is set and the handlers are done.

        While a handler runs its message is kept from others. A handler that raises is logged, and its
        message comes again after 1 s, later up to 10 s. While not ready it takes no further message.
        """
        await Consumption(self._connection, self._jetstream, stream, handle, slots, readiness).run(stop)

    async def backlog(self, stream: Literal["REQUESTS", "TOOLS"]) -> backlog.Backlog:
        """What no worker has had a slot for yet."""
        return await backlog.backlog_of(self._jetstream, stream)

    async def follow_max_deliveries(
        self, handle: Callable[[dead.Exhausted], Awaitable[None]], *, stop: asyncio.Event
    ) -> None:
        """Work off, until `stop`, the messages of REQUESTS and TOOLS that were delivered 50 times in vain.

        After `handle` returns the message is copied to DEAD and removed; when it raises, it comes again.
        """

        async def on_advisory(delivery: Delivery) -> None:
            await dead.handle_advisory(self._jetstream, delivery, handle)

        await Consumption(self._connection, self._jetstream, streams.ADVISORIES, on_advisory, slots=1).run(
            stop
        )

    async def dead(self, message: messages.DeadLettered) -> None:
        """Copy a message to DEAD, acknowledged within 2 s."""
        await dead.bury(self._jetstream, message)

    async def serve(
        self, subject: str, queue: str, handle: Callable[[bytes], Awaitable[bytes]]
    ) -> Subscription:
        """Answer requests on `subject` as one of the group `queue`, each in a task of its own."""
        return await rpc.serve(self._connection, subject, queue, handle)

    async def ask(self, subject: str, message: messages.BusMessage, reply: type[M], *, timeout: float) -> M:
        """One request and its reply, within `timeout` seconds; nobody serving is said at once."""
        return await rpc.ask(self._connection, subject, message, reply, timeout)

    async def check_agent(self, account_id: str, agent_id: str, agent_version: int) -> messages.AgentCheck:
        """Whether an agent's tool servers and model provider work just now, within 20 s. Never raises."""
        return await checks.check_agent(self._connection, account_id, agent_id, agent_version)

    async def publish_event(
        self,
        subject: str,
        data: bytes,
        headers: dict[str, str],
        *,
        message_id: str,
        expected_last_sequence: int,
    ) -> int:
        """Append one event to EVENTS; see `feed.publish_event`. Raises FeedConflict too."""
        return await feed.publish_event(
            self._jetstream,
            subject,
            data,
            headers,
            message_id=message_id,
            expected_last_sequence=expected_last_sequence,
        )

    async def publish_events(self, events: Sequence[FeedEvent], end: FeedEnd) -> FeedEnd:
        """Append events behind `end`, and return the new end; see `feed`. Raises FeedConflict too."""
        return await feed.publish_events(self._jetstream, events, end)

    async def feed_end(self) -> FeedEnd:
        """Where EVENTS ends."""
        return await feed.feed_end(self._jetstream)

    async def oldest_event(self) -> int:
        """The log position of the oldest event in EVENTS, 0 where it holds none."""
        return await feed.oldest_event(self._jetstream)

    async def clear_feed(self) -> FeedEnd:
        """Empty EVENTS, to be fed again from what is returned."""
        return await feed.clear(self._jetstream)

    def follow_events(
        self, wanted: follow.Wanted, *, away: Callable[[BusUnavailable], None]
    ) -> AsyncGenerator[FeedEvent, None]:
        """The events of EVENTS and those that come, without end; see `follow`."""
        return follow.follow_events(self._connection, self._jetstream, wanted, away)

    async def forget_events(self, positions: Iterable[int]) -> None:
        """Overwrite the events of these log positions in EVENTS; see `forget.forget_events`."""
        await forget.forget_events(self._jetstream, positions)

    async def forget_runs(self, trace_ids: Collection[str]) -> None:
        """Remove what TRACES and RESULTS hold of these runs."""
        await forget.forget_runs(self._jetstream, trace_ids)

    async def forget_mentions(self, ids: Collection[str]) -> None:
        """Overwrite what is queued or dead and names one of these runs or conversations."""
        await forget.forget_mentions(self._jetstream, ids)

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
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(look):
                        await back.wait()
                back.clear()
                with contextlib.suppress(BusUnavailable, TimeoutError):
                    await self._provision_at_start()
        finally:
            remove()
