"""The bus of one process: what `bus` does, without NATS."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from agentchat.bus.errors import BusUnavailable
from agentchat.bus.work_queues import Backlog
from agentchat.contracts import frames, messages, subjects, tool_messages, wire
from agentchat.contracts.message_base import BusMessage
from tests.simulator.nats import Consumption, Nats, Queue, RunFollower
from tests.simulator.process import Process

_API_SECONDS = 2.0
_CANCELS = "cancels"
T = TypeVar("T")


class _Part:
    """Calls raise BusUnavailable, as those of the real one."""

    def __init__(self, process: Process, nats: Nats) -> None:
        self._process = process
        self._nats = nats

    async def _call(self, what: str, effect: Callable[[], T]) -> T:
        return await self._process.call(
            self._process.nats, what, effect, patience=_API_SECONDS, away=BusUnavailable, again=True
        )

    async def _store(self, what: str, effect: Callable[[], None], tell: Callable[[], None]) -> None:
        """Have a stream on the disk take a message: where there is no room, its followers alone have it."""

        def publish() -> None:
            if self._nats.full:
                tell()
                raise BusUnavailable("no room")
            effect()

        await self._call(what, publish)


class SimBus(_Part):
    """What `bus.Bus` is, as far as it is used here."""

    def __init__(
        self, process: Process, nats: Nats, listing: Callable[[], tool_messages.ToolsListed]
    ) -> None:
        super().__init__(process, nats)
        self.queues = SimQueues(process, nats)
        self.traces = SimTraces(process, nats)
        self.rpc = SimRpc(process, nats, listing)

    async def ping(self) -> None:
        await self._call("ping", lambda: None)

    def on_reconnect(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._process.listeners.append(listener)
        return lambda: self._process.listeners.remove(listener)


class SimQueues(_Part):
    """Stand in for `bus.work_queues.Queues`."""

    async def request_chat(self, message: messages.ChatRequested) -> None:
        message_id = f"{message.trace_id}:{message.attempt}"
        await self._publish(
            self._nats.requests, subjects.format_requests(message.account_id), message, message_id
        )

    async def request_tool(self, message: tool_messages.ToolRequested) -> None:
        message_id = f"{message.trace_id}:{message.leg_id}"
        await self._publish(
            self._nats.tools, subjects.format_tool_requests(message.trace_id), message, message_id
        )

    async def consume(
        self, stream: str, handle: Callable[[Any], Awaitable[None]], *, slots: int, stop: asyncio.Event
    ) -> None:
        queue = self._nats.requests if stream == "REQUESTS" else self._nats.tools
        await Consumption(self._process, queue, handle, slots).run(stop)

    async def measure_backlog(self, _stream: str) -> Backlog:
        return Backlog(waiting=0)

    async def publish_dead_letter(self, message: messages.DeadLettered) -> None:
        self._process.world.report_internal(f"dead: {message.reason}")

    async def _publish(self, queue: Queue, subject: str, message: BusMessage, message_id: str) -> None:
        data = wire.encode(message)

        def publish() -> None:
            queue.publish(subject, data, message_id)

        await self._store(f"publish {queue.name}", publish, tell=lambda: None)


class SimTraces(_Part):
    """Stand in for `bus.trace_channel.Traces`."""

    def __init__(self, process: Process, nats: Nats) -> None:
        super().__init__(process, nats)
        self._heard_cancelled: set[str] = set()

    async def finish_tool(self, message: tool_messages.ToolFinished) -> None:
        def effect() -> None:
            kept = self._nats.results.setdefault(message.trace_id, {})
            if message.call_id not in kept:
                kept[message.call_id] = message
                tell()

        def tell() -> None:
            self._nats.tell(f"results {message.trace_id}", message)

        await self._store(f"finish {message.call_id}", effect, tell)

    async def shorten_tool_result(self, message: tool_messages.ToolFinished) -> None:
        short = replace(message, output="", recorded=True)

        def effect() -> None:
            self._nats.results.setdefault(message.trace_id, {})[message.call_id] = short
            tell()

        def tell() -> None:
            self._nats.tell(f"results {message.trace_id}", short)

        await self._store(f"record {message.call_id}", effect, tell)

    async def cancel(self, message: messages.CancelRequested) -> None:
        def effect() -> None:
            self._nats.cancels.add(message.trace_id)
            tell()

        def tell() -> None:
            self._nats.tell(_CANCELS, message)

        await self._store("cancel", effect, tell)

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        self._nats.publish_frame(self._process, trace_id, frame)

    async def follow_trace(self, trace_id: str, deliver: Callable[[frames.Frame], None]) -> RunFollower:
        return self._nats.follow(self._process, trace_id, deliver)

    async def read_frames(self, trace_id: str) -> list[frames.Frame]:
        return await self._call("read_frames", lambda: list(self._nats.frames.get(trace_id, ())))

    async def follow_tool_results(
        self, trace_id: str, deliver: Callable[[tool_messages.ToolFinished], None]
    ) -> RunFollower:
        return self._nats.follow(self._process, f"results {trace_id}", deliver)

    async def read_tool_results(self, trace_id: str) -> dict[str, tool_messages.ToolFinished]:
        return await self._call("read_tool_results", lambda: dict(self._nats.results.get(trace_id, {})))

    async def follow_cancels(self, deliver: Callable[[messages.CancelRequested], None]) -> RunFollower:
        def hear(asked: messages.CancelRequested) -> None:
            self._heard_cancelled.add(asked.trace_id)
            deliver(asked)

        return self._nats.follow(self._process, _CANCELS, hear)

    def is_known_cancelled(self, trace_id: str) -> bool | None:
        """None also where it is yet to be heard, or has to be read back."""
        if trace_id in self._nats.cancels - self._heard_cancelled or not self._process.nats.up:
            return None
        return trace_id in self._heard_cancelled

    async def is_cancelled(self, trace_id: str) -> bool:
        return await self._call("is_cancelled", lambda: trace_id in self._nats.cancels)


class SimRpc(_Part):
    """Stand in for `bus.rpc.Rpc`."""

    def __init__(
        self, process: Process, nats: Nats, listing: Callable[[], tool_messages.ToolsListed]
    ) -> None:
        super().__init__(process, nats)
        self._listing = listing

    async def ask(
        self, subject: str, _message: Any, _reply: Any, *, timeout: float
    ) -> tool_messages.ToolsListed:
        assert subject == subjects.TOOLS_LIST, "nothing else is asked"
        return await self._call("list tools", self._listing)
