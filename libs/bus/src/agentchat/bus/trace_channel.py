"""Publish and follow live frames, tool results and cancellations of runs, kept for 15 minutes.

The orchestrator publishes frames, and the tool-runner those of a call's progress. The gateway
(`gateway.runs`) and the console follow them.
"""

import asyncio
import functools
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
from nats.aio.msg import Msg

from agentchat.bus.connection import PENDING_BYTES, Connection, Receive
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.jetstream import JetStream
from agentchat.bus.subscription import ReadBack, Subscription
from agentchat.contracts import frames, messages, subjects, tool_messages, wire
from agentchat.contracts.timings import TRACES_KEPT_SECONDS
from agentchat.runtime import logs, metrics, tracing

_ALL_CANCELS = "chat.control.cancel.*"
_WARN_SECONDS = 10.0
_UNNOTICED_SECONDS = 8.0
"""How long a connection may be dead before that is noticed (`connection.PING_SECONDS`)."""
T = TypeVar("T")

_decode_result = functools.partial(wire.decode_message, tool_messages.ToolFinished)
_decode_cancel = functools.partial(wire.decode_message, messages.CancelRequested)


class _SentEnd(NamedTuple):
    """A run's last frame, as it was published at a time of time.monotonic()."""

    at: float
    subject: str
    payload: bytes
    headers: dict[str, str]


class Traces:
    """The trace channel: publish to it, follow it, read it back.

    Methods raise BusUnavailable unless they state otherwise. Acknowledgements come within 2 s.
    """

    def __init__(self, connection: Connection, jetstream: JetStream) -> None:
        self._connection = connection
        self._jetstream = jetstream
        self._log = logs.get_logger("bus")
        self._dropped = 0  # frames, since the last warning
        self._warn_at = 0.0  # on time.monotonic()
        self._cancel_followers: list[Subscription] = []
        self._ends: deque[_SentEnd] = deque()  # sent in the last few seconds
        self._sending_again: asyncio.Task[None] | None = None
        connection.add_listener(self._send_ends_again)
        self._cancelled: dict[str, float] = {}  # trace id: time.monotonic() of its receipt, oldest first

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        """Send one frame. Never raises; yields to the loop only if much waits to be sent.

        A frame that cannot be sent is lost, and readers repair from the log; the counter
        agentchat_bus_frames_dropped_total and a warning report it. Deltas carry no trace context: their
        subject names the trace.
        """
        is_traced = not isinstance(frame, frames.DeltaFrame) and tracing.is_recording()
        headers = tracing.inject({}) if is_traced else {}
        subject, payload = subjects.format_trace(trace_id), wire.encode(frame)
        if not await self._connection.publish_now(subject, payload, headers=headers):
            self._count_dropped(trace_id, frame)
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
        """Repeat the last frames of runs: those written to a connection that then broke are lost.

        Nothing follows an end, so readers would not notice that it is missing.
        """
        self._sending_again = asyncio.create_task(self._send_kept_ends())

    async def _send_kept_ends(self) -> None:
        kept = time.monotonic() - _UNNOTICED_SECONDS
        for end in tuple(self._ends):
            if end.at >= kept:
                await self._connection.publish_now(end.subject, end.payload, headers=end.headers)

    def _count_dropped(self, trace_id: str, frame: frames.Frame) -> None:
        """Count a dropped frame, and warn at once, then at most every 10 s."""
        metrics.FRAMES_DROPPED.inc()
        self._dropped += 1
        now = time.monotonic()
        if now >= self._warn_at:
            self._log.warning(
                "frames_dropped", count=self._dropped, trace_id=trace_id, frame=type(frame).__name__
            )
            self._dropped, self._warn_at = 0, now + _WARN_SECONDS

    async def follow_trace(self, trace_id: str, deliver: Callable[[frames.Frame], None]) -> Subscription:
        """Call `deliver` with each frame from now on, in order. It runs on the loop and must not block.

        Following has started when this returns: everything published later on this connection is delivered.
        Frames that come while disconnected are not: `read_frames` returns them, and the order of all.
        """
        subject = subjects.format_trace(trace_id)

        def receive(message: Msg) -> None:
            if (frame := self._decode(wire.decode_frame, message.data, subject)) is not None:
                deliver(frame)

        return await self._follow(subject, receive)

    async def read_frames(self, trace_id: str) -> list[frames.Frame]:
        """Return the frames that TRACES holds of a trace, in the order they came in; [] if none."""
        subject = subjects.format_trace(trace_id)
        stored = self._jetstream.read_messages(subjects.TRACES, subject)
        found = [self._decode(wire.decode_frame, message.data, subject) async for message in stored]
        return [frame for frame in found if frame is not None]

    async def finish_tool(self, message: tool_messages.ToolFinished) -> None:
        """Publish a tool's result, acknowledged. It replaces the result of the call's earlier leg."""
        subject = subjects.format_tool_result(message.trace_id, message.call_id)
        message_id = subjects.format_tool_result(message.trace_id, message.leg_id)
        await self._jetstream.publish(subject, wire.encode(message), message_id)

    async def shorten_tool_result(self, message: tool_messages.ToolFinished) -> None:
        """Free the space of a result in RESULTS: its subject keeps one message, now the short form."""
        subject = subjects.format_tool_result(message.trace_id, message.call_id)
        short = msgspec.structs.replace(message, output="", recorded=True)
        await self._jetstream.publish(subject, wire.encode(short), f"{subject}:recorded")

    async def follow_tool_results(
        self, trace_id: str, deliver: Callable[[tool_messages.ToolFinished], None]
    ) -> Subscription:
        """Call `deliver` with each result of the trace's tools from now on.

        After a reconnect everything that RESULTS holds is delivered again, so some messages come twice.
        """
        return await self._follow_messages(
            subjects.RESULTS, subjects.format_tool_results(trace_id), _decode_result, deliver
        )

    async def read_tool_results(self, trace_id: str) -> dict[str, tool_messages.ToolFinished]:
        """Return the results that RESULTS holds of a trace, by call id."""
        subject = subjects.format_tool_results(trace_id)
        stored = self._jetstream.read_messages(subjects.RESULTS, subject)
        results = [self._decode(_decode_result, message.data, subject) async for message in stored]
        return {result.call_id: result for result in results if result is not None}

    async def cancel(self, message: messages.CancelRequested) -> None:
        """Request the end of a run, acknowledged by CANCELS. Workers receive it by `follow_cancels`."""
        subject = subjects.format_cancel(message.trace_id)
        await self._jetstream.publish(subject, wire.encode(message), subject)

    async def follow_cancels(self, deliver: Callable[[messages.CancelRequested], None]) -> Subscription:
        """Call `deliver` with each cancellation of any run from now on; some come twice, as for results.

        Its `look_again` delivers those of the last 15 minutes; after that `is_known_cancelled` has an answer.
        """

        def receive(message: messages.CancelRequested) -> None:
            self._remember_cancelled(message.trace_id)
            deliver(message)

        following = await self._follow_messages(subjects.CANCELS, _ALL_CANCELS, _decode_cancel, receive)
        self._cancel_followers.append(following)
        return following

    def is_known_cancelled(self, trace_id: str) -> bool | None:
        """Return True if a cancellation was received here; None until earlier ones were received too.

        A later one is delivered to `follow_cancels`. Messages on this connection are as old as the answer.
        """
        if not any(following.is_complete for following in self._cancel_followers):
            return None
        return trace_id in self._cancelled

    def _remember_cancelled(self, trace_id: str) -> None:
        now = time.monotonic()
        self._cancelled.pop(trace_id, None)
        self._cancelled[trace_id] = now
        while self._cancelled[oldest := next(iter(self._cancelled))] < now - TRACES_KEPT_SECONDS:
            del self._cancelled[oldest]

    async def is_cancelled(self, trace_id: str) -> bool:
        """Return True if a cancellation was requested in the last 15 minutes.

        If that cannot be found out now, for example while a cluster elects a leader, a cancellation is
        delivered to `follow_cancels` later.
        """
        try:
            found = await self._jetstream.get_last_message(subjects.CANCELS, subjects.format_cancel(trace_id))
        except BusUnavailable:
            for following in self._cancel_followers:
                following.look_again()
            raise
        return found is not None

    async def _follow_messages(
        self, stream: str, subject: str, decode: Callable[[bytes], T], deliver: Callable[[T], None]
    ) -> Subscription:
        def take(data: bytes) -> None:
            if (message := self._decode(decode, data, subject)) is not None:
                deliver(message)

        def receive(message: Msg) -> None:
            take(message.data)

        async def read_back() -> None:
            async for message in self._jetstream.read_messages(stream, subject):
                take(message.data)

        return await self._follow(subject, receive, read_back)

    def _decode(self, decode: Callable[[bytes], T], data: bytes, subject: str) -> T | None:
        try:
            return decode(data)
        except msgspec.DecodeError:
            self._log.warning("message_undecodable", subject=subject)
            return None

    async def _follow(
        self, subject: str, receive: Receive, read_back: ReadBack | None = None
    ) -> Subscription:
        subscription = await self._connection.subscribe(subject, receive)
        return Subscription(self._connection, subscription, read_back)
