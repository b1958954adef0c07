"""Progress that a tool server reports: it keeps a call alive, and is told to who waits for it."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from mcp_types import CallToolResult

from bus import Bus
from contracts.messages import CancelRequested
from contracts.timings import TOOL_PROGRESS_SECONDS, TOOL_SLACK_SECONDS
from contracts.tool_messages import ToolRequested
from directory.agents import McpServer
from runtime.fair_slots import FairSlots, KeySlots
from tests.tool_runner.conftest import Connect
from tests.tool_runner.runner import Agent, Calls, environ, make_agent, running
from tests.tool_runner.scripted import Call, ScriptedServer, serving, tool
from tool_runner.faults import ToolFailed
from tool_runner.http.call_budget import LARGE_BYTES, RESPONSE_BYTES, CallBudget
from tool_runner.servers.pool import ToolServer
from tool_runner.time_limit import TimeLimit

SECONDS = 60.0


def now() -> float:
    return asyncio.get_running_loop().time()


async def until_past(moment: float) -> None:
    """A call that was not deferred has ended by then."""
    await asyncio.sleep(max(0.0, moment + 1.0 - now()))


async def for_ever(call: Call) -> None:
    """Progress without an end, and no result."""
    await call.begin_events()
    for value in range(100_000):
        await call.progress(value)
        await asyncio.sleep(0.05)


async def call_tool(server: ToolServer, limit: TimeLimit) -> str:
    result = await server.call((await server.tools())["echo"], {}, limit)
    assert isinstance(result, CallToolResult)
    return str(result.content)


async def test_a_call_that_reports_progress_goes_on_past_its_time(connect: Connect) -> None:
    limit = TimeLimit(now() + 4.0, seconds=SECONDS, latest=now() + SECONDS)
    first = limit.until

    async def on_call(call: Call) -> None:
        await call.begin_events()
        await call.progress(1)
        await until_past(first)
        await call.last_event("done")

    async with serving(on_call) as scripted:
        assert "done" in await call_tool(connect(scripted), limit)
    assert limit.until > first


async def test_a_server_that_reports_progress_for_ever_ends_at_the_upper_limit(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        if len(scripted.calls()) == 1:
            await call.text("The session is open.")
        else:
            await for_ever(call)

    async with serving(on_call) as scripted:
        server = connect(scripted)
        await call_tool(server, TimeLimit(now() + SECONDS, seconds=SECONDS, latest=now() + SECONDS))
        limit = TimeLimit(now() + 2.0, seconds=SECONDS, latest=now() + 3.0)
        with pytest.raises(ToolFailed, match="timeout"):
            await call_tool(server, limit)
        assert limit.until == limit.latest
        await scripted.arrived("notifications/cancelled")


async def test_progress_of_a_call_that_has_ended_is_nothing(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        if len(scripted.calls()) == 1:
            await call.text("first")
            return
        await call.begin_events()
        for earlier in scripted.calls():
            if earlier is not call:
                token = earlier.message["params"]["_meta"]["progressToken"]
                params = {"progressToken": token, "progress": 1}
                await call.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await call.last_event("second")

    async with serving(on_call) as scripted:
        server = connect(scripted)
        limits = [TimeLimit(now() + SECONDS, seconds=SECONDS, latest=now() + 2 * SECONDS) for _ in range(2)]
        before = [limit.until for limit in limits]
        assert "first" in await call_tool(server, limits[0])
        assert "second" in await call_tool(server, limits[1])
        assert [limit.until for limit in limits] == before


async def test_reports_over_a_long_time_do_not_use_up_what_an_answer_may_have() -> None:
    large = KeySlots(FairSlots(1), "account")
    budget = CallBudget(now() + SECONDS, RESPONSE_BYTES)
    began = now()
    await budget.take(b"x" * LARGE_BYTES, large)
    await until_past(began)
    later = now() + 2 * SECONDS
    budget.defer(later)
    await budget.take(b"x" * 1024, large)
    assert budget.deadline == later


async def test_a_large_answer_is_to_come_quickly_whatever_progress_is_reported() -> None:
    large = KeySlots(FairSlots(1), "account")
    budget = CallBudget(now() + SECONDS, RESPONSE_BYTES)
    await budget.take(b"x" * (LARGE_BYTES + 1), large)
    soon = budget.deadline
    budget.defer(now() + 2 * SECONDS)
    assert budget.deadline == soon < now() + SECONDS
    budget.close()


class World:
    """A runner, an agent of one server, and that server: it reports progress, and answers when it is let."""

    def __init__(
        self, calls: Calls, agent: Agent, scripted: ScriptedServer, may_answer: asyncio.Event
    ) -> None:
        self.calls = calls
        self.agent = agent
        self.scripted = scripted
        self.may_answer = may_answer

    def request(self, name: str, *, deadline: float, ends_by: float = SECONDS) -> ToolRequested:
        """A call whose time is over in `deadline` seconds, and in `ends_by` whatever its server reports."""
        moments = {"deadline": at(deadline), "ends_by": at(ends_by)}
        return self.agent.call(name, timeout_s=30.0, **moments)

    async def told(self) -> str:
        """The deadline that was told first, once it was."""
        async with asyncio.timeout(SECONDS):
            await self.calls.progressed.wait()
        return self.calls.progress[0].deadline


def at(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@asynccontextmanager
async def world(nats_url: str, database_url: str) -> AsyncIterator[tuple[World, dict[str, str]]]:
    may_answer = asyncio.Event()

    async def on_call(call: Call) -> None:
        if call.tool == "endless":
            await for_ever(call)
        await call.begin_events()
        for value in range(20):
            await call.progress(value)
        await may_answer.wait()
        await call.last_event("done")

    names = [tool("read", readOnlyHint=True), tool("write"), tool("endless", readOnlyHint=True)]
    async with serving(on_call, names) as scripted, Bus.connect(nats_url, name="test") as bus:
        agent = await make_agent(database_url, McpServer(name="scripted", url=scripted.url))
        env = environ(nats_url, database_url, [f"127.0.0.1:{scripted.port}"])
        yield World(Calls(bus), agent, scripted, may_answer), env


async def test_who_waits_for_a_call_is_told_that_it_goes_on(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    async with world(fresh_nats_url, migrated_database_url) as (made, env), running(env):
        request = made.request("write", deadline=6.0)
        assert request.deadline is not None
        began = now()
        waiting = asyncio.create_task(made.calls.finish(request, SECONDS))
        told = datetime.fromisoformat(await made.told())
        assert told > datetime.fromisoformat(request.deadline) + timedelta(seconds=TOOL_SLACK_SECONDS)
        await until_past(began + 6.0)
        made.may_answer.set()
        assert json.loads((await waiting).output) == {"text": "done"}
        assert len(made.calls.progress) <= 1 + (now() - began) / TOOL_PROGRESS_SECONDS


async def test_a_call_ends_at_its_upper_limit_and_one_that_is_cancelled_at_once(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    async with world(fresh_nats_url, migrated_database_url) as (made, env), running(env):
        cancelled = made.request("endless", deadline=20.0, ends_by=2 * SECONDS)
        waiting = asyncio.create_task(made.calls.finish(cancelled, SECONDS))
        await made.told()
        asked = CancelRequested(trace_id=cancelled.trace_id, account_id=cancelled.account_id)
        await made.calls.bus.traces.cancel(asked)
        assert "was cancelled" in (await waiting).output
        limited = await made.calls.finish(made.request("endless", deadline=3.0, ends_by=5.0), SECONDS)
        assert "did not answer in time" in limited.output


async def test_a_call_whose_runner_dies_has_the_deadline_that_its_progress_has_come_to(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    """Its own has passed when the queue delivers it again, 10 s later."""
    async with world(fresh_nats_url, migrated_database_url) as (made, env):
        async with running(env) as first:
            request = made.request("read", deadline=8.0)
            waiting = asyncio.create_task(made.calls.finish(request, SECONDS))
            await made.told()
            first.signal(signal.SIGKILL)
            await first.ended()
        made.may_answer.set()
        async with running(env):
            assert json.loads((await waiting).output) == {"text": "done"}
        assert len(made.scripted.calls()) == 2
