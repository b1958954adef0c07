"""A tool-runner for tests: real requests over the real bus, and tools that do what a test says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agentchat.bus.bus import Bus
from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import subjects, wire
from agentchat.contracts.ids import make_id
from agentchat.contracts.tool_messages import (
    ListTools,
    ToolFinished,
    ToolRequested,
    ToolsListed,
    UnavailableServer,
)
from agentchat.contracts.values import ToolSpec
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call, Round
from agentchat.directory.agent_config import AgentConfig, McpServer
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.tools.tool_calls import RunToolCalls
from tests.orchestrator.given import World

RunTool = Callable[[ToolRequested], Awaitable[str | ToolFinished | None]]

SPECS = tuple(
    ToolSpec(
        name=name,
        server="shop",
        tool=name,
        description=f"{name}.",
        input_schema={"type": "object"},
        read_only=name == "find",
    )
    for name in ("find", "order")
)


def build_result(request: ToolRequested, output: str = "{}", **more: Any) -> ToolFinished:
    """A result of the leg that was asked for."""
    return ToolFinished(
        trace_id=request.trace_id,
        call_id=request.call_id,
        leg=request.leg,
        output=output,
        is_error=False,
        ms=7,
        **more,
    )


class Toolbox:
    """Offers `find` (read-only) and `order` (not to be repeated).

    `run` gives outputs, or whole results, or None: silence.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.listed: list[ListTools] = []
        self.requested: list[ToolRequested] = []
        self.news = asyncio.Event()
        self.run: RunTool = self.echo
        self.unavailable: tuple[UnavailableServer, ...] = ()
        self.specs = SPECS

    async def echo(self, request: ToolRequested) -> str | None:
        return wire.encode({"did": request.tool, "with": request.input}).decode()

    async def wait_until_requested(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.requested) < count:
                self.news.clear()
                await self.news.wait()

    async def finish(self, request: ToolRequested, output: str | ToolFinished) -> None:
        if isinstance(output, str):
            output = build_result(request, output)
        await self.bus.traces.finish_tool(output)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Toolbox"]:
        stop = asyncio.Event()
        serving = await self.bus.rpc.serve(subjects.TOOLS_LIST, "tool-runner", self._list)
        consuming = asyncio.create_task(self.bus.queues.consume("TOOLS", self._take, slots=100, stop=stop))
        try:
            yield self
        finally:
            stop.set()
            await serving.close()
            await consuming

    async def _list(self, data: bytes) -> bytes:
        self.listed.append(wire.decode_message(ListTools, data))
        return wire.encode(ToolsListed(tools=self.specs, unavailable=self.unavailable))

    async def _take(self, delivery: QueueDelivery) -> None:
        request = wire.decode_message(ToolRequested, delivery.data)
        await delivery.ack()
        self.requested.append(request)
        self.news.set()
        output = await self.run(request)
        if output is not None:
            await self.finish(request, output)


NOW = "2026-11-21T09:30:00.000000Z"
"""What a run's clock says when an attempt at it begins."""


def list_calls(
    working: World,
    *earlier: Call,
    seconds: float = 600.0,
    most_seconds: int = 30,
    trace_id: str = "",
    **patience: Any,
) -> tuple[RunToolCalls, RunClock]:
    """The calls of an attempt with so many seconds left; `earlier` were recorded before it."""
    clock = RunClock(NOW)
    shop = McpServer(name="shop", url="https://shop.example/mcp", max_call_seconds=most_seconds)
    agent = AgentConfig(name="a", model="m", agent_id="g", account_id="c", version=1, mcp_servers=(shop,))
    run = Run(
        trace_id=trace_id or make_id().replace("-", ""),
        agent_id="g",
        user_message_id="m",
        user_text="Hello",
        requested_at=NOW,
        attempt=2,
        rounds=(Round(number=1, calls=earlier),),
    )
    return RunToolCalls(working.bus, agent, run, clock, clock.after(seconds), **patience), clock
