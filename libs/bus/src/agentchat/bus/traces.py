"""The trace channel: live frames, tool results and cancellations of a run, kept for 15 minutes."""

import asyncio
import functools
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from weakref import WeakSet

import msgspec
from nats.aio.msg import Msg

from agentchat.bus.connection import PENDING_BYTES, Connection, Receive
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.jetstream import JetStream
from agentchat.bus.subscription import ReadBack, Subscription
from agentchat.contracts import frames, messages, subjects, tool_messages, wire
from agentchat.contracts.timings import TRACES_KEPT_SECONDS
from agentchat.runtime import logs, metrics, telemetry

_ALL_CANCELS = "chat.control.cancel.*"
_WARN_SECONDS = 10.0
_UNNOTICED_SECONDS = 8.0
"""A connection may have been dead for so long (`connection.PING_SECONDS`) before it is known."""
T = TypeVar("T")


class _SentEnd(NamedTuple):
    """The frame of an end, as it was published at a time of time.monotonic()."""

    at: float
    subject: str
    payload: bytes
    headers: dict[str, str]


class Traces:
    """Publishing to, following and reading back the trace channel.

    Calls raise BusUnavailable unless they state otherwise; acknowledgements come within 2 s.
    """

    def __init__(self, connection: Connection, jetstream: JetStream) -> None:
        self._connection = connection
        self._jetstream = jetstream
        self._log = logs.get_logger("bus")
        self._dropped = 0  # frames, since the last warning
        self._warn_at = 0.0  # on time.monotonic()
        self._cancel_followers: WeakSet[Subscription] = WeakSet()
        self._ends: deque[_SentEnd] = deque()  # of the last few seconds
        self._sending_again: asyncio.Task[None] | None = None
        connection.add_listener(self._send_ends_again)
        self._cancelled: dict[str, float] = {}  # when it was received, on time.monotonic(), the oldest first

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        """Send one frame. Never raises, and waits for a turn of the loop only where much waits to be sent.

        A frame that cannot be sent is lost, and readers repair from the log; the counter
        agentchat_bus_frames_dropped_total and a warning say so. Deltas go without a trace context:
        their subject names the trace.
        """
        is_traced = not isinstance(frame, frames.Delta) and telemetry.is_recording()
        headers = telemetry.inject({}) if is_traced else {}
        subject, payload = subjects.trace(trace_id), wire.encode(frame)
        if not await self._connection.publish_now(subject, payload, headers=headers):
            self._note_dropped(trace_id, frame)
            await asyncio.sleep(0)
            return
        if isinstance(frame, frames.Completed | frames.Failed | frames.Paused):
            self._keep_end(_SentEnd(time.monotonic(), subject, payload, headers))
        if self._connection.client.pending_data_size > PENDING_BYTES // 2:
            await asyncio.sleep(0)

    def _keep_end(self, end: _SentEnd) -> None:
        self._ends.append(end)
        while self._ends[0].at < end.at - _UNNOTICED_SECONDS:
            self._ends.popleft()

    def _send_ends_again(self) -> None:
        """What was written to a connection that then broke is lost, and nothing after an end shows that."""
        self._sending_again = asyncio.create_task(self._send_kept_ends())

    async def _send_kept_ends(self) -> None:
        kept = time.monotonic() - _UNNOTICED_SECONDS
        for end in tuple(self._ends):
            if end.at >= kept:
                await self._connection.publish_now(end.subject, end.payload, headers=end.headers)

    def _note_dropped(self, trace_id: str, frame: frames.Frame) -> None:
        """Count it, and warn at once, then every 10 s at most."""
        metrics.FRAMES_DROPPED.inc()
        self._dropped += 1
        now = time.monotonic()
        if now >= self._warn_at:
            self._log.warning(
                "frames_dropped", count=self._dropped, trace_id=trace_id, frame=type(frame).__name__
            )
            self._dropped, self._warn_at = 0, now + _WARN_SECONDS

    async def follow_trace(self, trace_id: str, deliver: Callable[[frames.Frame], None]) -> Subscription:
        """Have `deliver` called with each frame from now on, in order; it runs on the loop, and never blocks.

        Following has begun when this returns: whatever is published later on this connection is seen. What
        comes while the connection is away is not: `frames_of` has it, and the order of all.
        """

        def receive(message: Msg) -> None:
            try:
                frame = wire.decode_frame(message.data)
            except msgspec.DecodeError:
                self._log.warning("frame_undecodable", trace_id=trace_id)
            else:
                deliver(frame)

        return await self._follow(subjects.trace(trace_id), receive)

    async def frames_of(self, trace_id: str) -> list[frames.Frame]:
        """The frames that TRACES keeps of a trace, in the order they came in; [] if none."""
        found = []
        async for message in self._jetstream.messages(subjects.TRACES, subjects.trace(trace_id)):
            try:
                found.append(wire.decode_frame(message.data))
            except msgspec.DecodeError:
                self._log.warning("frame_undecodable", trace_id=trace_id)
        return found

    async def finish_tool(self, message: tool_messages.ToolFinished) -> None:
        """Publish a tool's result, acknowledged. It takes the place of that of the call's leg before."""
        subject = subjects.tool_result(message.trace_id, message.call_id)
        message_id = subjects.tool_result(message.trace_id, message.leg_id)
        await self._jetstream.publish(subject, wire.encode(message), message_id)

    async def record_tool(self, message: tool_messages.ToolFinished) -> None:
        """Free what a result takes in RESULTS, for good: its subject keeps one message, the short form."""
        subject = subjects.tool_result(message.trace_id, message.call_id)
        short = msgspec.structs.replace(message, output="", recorded=True)
        await self._jetstream.publish(subject, wire.encode(short), f"{subject}:recorded")

    async def follow_tool_results(
        self, trace_id: str, deliver: Callable[[tool_messages.ToolFinished], None]
    ) -> Subscription:
        """Have `deliver` called with each result of the trace's tools from now on.

        After a reconnect it gets all that RESULTS keeps again, so it may get a message twice.
        """
        decode = functools.partial(wire.decode_message, tool_messages.ToolFinished)
        return await self._follow_messages(subjects.RESULTS, subjects.tool_results(trace_id), decode, deliver)

    async def tool_results_of(self, trace_id: str) -> dict[str, tool_messages.ToolFinished]:
        """Return the results that RESULTS keeps of a trace, by the ids of their calls."""
        results = {}
        async for message in self._jetstream.messages(subjects.RESULTS, subjects.tool_results(trace_id)):
            try:
                result = wire.decode_message(tool_messages.ToolFinished, message.data)
            except msgspec.DecodeError:
                self._log.warning("message_undecodable", subject=message.subject)
            else:
                results[result.call_id] = result
        return results

    async def cancel(self, message: messages.CancelRequested) -> None:
        """Request the end of a run, acknowledged by CANCELS."""
        subject = subjects.cancel(message.trace_id)
        await self._jetstream.publish(subject, wire.encode(message), subject)

    async def follow_cancels(self, deliver: Callable[[messages.CancelRequested], None]) -> Subscription:
        """Have `deliver` called with each cancellation of any run from now on, some twice, as for results.

        With its `look_again` those of the last 15 minutes follow: then `is_known_cancelled` has an answer.
        """

        def receive(message: messages.CancelRequested) -> None:
            self._note_cancelled(message.trace_id)
            deliver(message)

        decode = functools.partial(wire.decode_message, messages.CancelRequested)
        following = await self._follow_messages(subjects.CANCELS, _ALL_CANCELS, decode, receive)
        self._cancel_followers.add(following)
        return following

    def is_known_cancelled(self, trace_id: str) -> bool | None:
        """As `is_cancelled`, by the cancellations received here; None until those before are received too.

        A later one is delivered to `follow_cancels`. What comes on this connection is as old as its answer.
        """
        if not any(following.is_complete for following in self._cancel_followers):
            return None
        return trace_id in self._cancelled

    def _note_cancelled(self, trace_id: str) -> None:
        now = time.monotonic()
        self._cancelled.pop(trace_id, None)
        self._cancelled[trace_id] = now
        while self._cancelled[oldest := next(iter(self._cancelled))] < now - TRACES_KEPT_SECONDS:
            del self._cancelled[oldest]

    async def is_cancelled(self, trace_id: str) -> bool:
        """Whether a cancellation was requested in the last 15 minutes.

        Where that cannot be found out now, as while a cluster elects a leader, it is delivered to
        `follow_cancels` later.
        """
        try:
            found = await self._jetstream.last_message(subjects.CANCELS, subjects.cancel(trace_id))
        except BusUnavailable:
            for following in self._cancel_followers:
                following.look_again()
            raise
        return found is not None

    async def _follow_messages(
        self, stream: str, subject: str, decode: Callable[[bytes], T], deliver: Callable[[T], None]
    ) -> Subscription:
        def take(data: bytes) -> None:
            try:
                message = decode(data)
            except msgspec.DecodeError:
                self._log.warning("message_undecodable", subject=subject)
            else:
                deliver(message)

        def receive(message: Msg) -> None:
            take(message.data)

        async def read_back() -> None:
            async for message in self._jetstream.messages(stream, subject):
                take(message.data)

        return await self._follow(subject, receive, read_back)

    async def _follow(
        self, subject: str, receive: Receive, read_back: ReadBack | None = None
    ) -> Subscription:
        subscription = await self._connection.subscribe(subject, receive)
        return Subscription(self._connection, subscription, read_back)
