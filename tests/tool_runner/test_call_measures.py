"""Calls are measured without the wait for a slot, refused ones not at all; a new tool is found at once."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from prometheus_client import REGISTRY

from agentchat.bus.bus import Bus
from agentchat.contracts.tool_messages import ListTools
from agentchat.directory.agent_config import McpServer
from agentchat.directory.secrets import Sealer
from agentchat.net_guard import Guard, Resolver
from agentchat.runtime.postgres import open_pool
from agentchat.tool_runner.calls.executor import Executor
from agentchat.tool_runner.calls.handler import CallHandler
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.database_clock import DatabaseClock
from agentchat.tool_runner.journal import Journal
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.server_pool import ServerPool
from agentchat.tool_runner.tools.listing import ToolLister
from tests.ports import find_free_port
from tests.tool_runner.runner import SECRET_KEY, Agent, Calls, make_agent
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool, serve_script

CALL_SECONDS = 0.5


class Runner:
    """The handler of calls, in this process, and an agent with a server of one account."""

    def __init__(
        self, calls: Calls, agent: Agent, gone: Agent, scripted: ScriptedServer, lister: ToolLister
    ) -> None:
        self.calls = calls
        self.agent = agent
        self.gone = gone
        self.scripted = scripted
        self.lister = lister


@pytest.fixture
async def runner(fresh_nats_url: str, migrated_database_url: str) -> AsyncIterator[Runner]:
    async def answer(call: Call) -> None:
        await asyncio.sleep(CALL_SECONDS)
        await call.send_text("fine")

    port = find_free_port()
    async with (
        serve_script(answer, [make_tool("slow", readOnlyHint=True)]) as scripted,
        open_pool(migrated_database_url) as pool,
        Bus.connect(fresh_nats_url, name="test") as bus,
        asyncio.TaskGroup() as group,
    ):
        guard = Guard([f"127.0.0.1:{scripted.port}", f"127.0.0.1:{port}"], Resolver())
        servers = ServerPool(guard, httpx2.create_ssl_context())
        scripted.clients.append(lambda: servers.close(5.0))
        agents = AgentServers(pool, Sealer.from_setting(SECRET_KEY))
        handler = CallHandler(
            bus, Executor(agents, servers), Journal(pool, "test"), DatabaseClock(pool), ResultQuota(), slots=2
        )
        stop = asyncio.Event()
        group.create_task(bus.queues.consume("TOOLS", handler.handle, slots=8, stop=stop))
        url = f"http://127.0.0.1:{port}/mcp"
        yield Runner(
            Calls(bus),
            await make_agent(migrated_database_url, McpServer(name="measured", url=scripted.url)),
            await make_agent(migrated_database_url, McpServer(name="gone", url=url)),
            scripted,
            ToolLister(agents, servers),
        )
        stop.set()


def make_request(agent: Agent, *, fresh: bool = False) -> ListTools:
    return ListTools(account_id=agent.account_id, agent_id=agent.agent_id, agent_version=1, fresh=fresh)


def read(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"agentchat_tools_{name}", labels) or 0.0


def read_calls(server: str = "measured") -> dict[str, float]:
    """Return the count of measured calls by outcome."""
    return {
        sample.labels["outcome"]: sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "agentchat_tools_calls_seconds_count" and sample.labels["server"] == server
    }


async def test_call_is_measured_without_the_wait_for_its_slot(runner: Runner) -> None:
    waits, waited = read("wait_seconds_count", begun="True"), read("wait_seconds_sum", begun="True")
    calls = [runner.calls.finish(runner.agent.call("slow", "measured")) for _ in range(4)]
    finished = await asyncio.gather(*calls)  # one at a time: an account has half of two slots
    assert max(each.ms for each in finished) < 2 * CALL_SECONDS * 1000
    assert read_calls() == {"ok": 4}
    total = read("calls_seconds_sum", server="measured", outcome="ok")
    assert 4 * CALL_SECONDS <= total < 7 * CALL_SECONDS
    assert read("wait_seconds_count", begun="True") - waits == 4
    assert read("wait_seconds_sum", begun="True") - waited > 5 * CALL_SECONDS


async def test_refused_call_is_not_measured(runner: Runner) -> None:
    before, refused_waits = read_calls(), read("wait_seconds_count", begun="False")
    now = datetime.now(UTC)
    past = (now - timedelta(seconds=1)).isoformat()
    late = await runner.calls.finish(runner.agent.call("slow", "measured", deadline=past))
    unknown = await runner.calls.finish(runner.agent.call("none", "measured"))
    foreign = await runner.calls.finish(runner.agent.call("slow", "elsewhere"))
    with contextlib.suppress(TimeoutError):
        running = [
            asyncio.create_task(runner.calls.finish(runner.agent.call("slow", "measured"))) for _ in range(2)
        ]
        await runner.scripted.wait_for_request("tools/call")
        soon = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
        busy = await runner.calls.finish(runner.agent.call("slow", "measured", deadline=soon))
        await asyncio.gather(*running)
    assert all(each.is_error and each.ms == 0 for each in (late, unknown, foreign, busy))
    assert read("wait_seconds_count", begun="False") == refused_waits + 1
    after = read_calls()
    assert {name: count - before.get(name, 0) for name, count in after.items()} == {"ok": 2}


async def test_call_to_a_server_that_is_down_is_measured(runner: Runner) -> None:
    finished = await runner.calls.finish(runner.gone.call("slow", "gone"))
    assert finished.is_error
    assert read_calls("gone") == {"unreachable": 1}


async def test_added_tool_is_found_at_once(runner: Runner) -> None:
    first = await runner.calls.finish(runner.agent.call("slow", "measured"))
    assert not first.is_error
    runner.scripted.tools.append(make_tool("added", readOnlyHint=True))
    assert not (await runner.calls.finish(runner.agent.call("added", "measured"))).is_error
    assert len(runner.scripted.list_calls("tools/list")) == 2
    unknown = await runner.calls.finish(runner.agent.call("none", "measured"))
    assert len(runner.scripted.list_calls("tools/list")) == 3
    assert json.loads(unknown.output) == {"error": "This agent has no such tool."}


async def test_list_can_be_asked_for_afresh_and_names_missing_servers(runner: Runner) -> None:
    request = make_request(runner.agent)
    assert [tool.name for tool in (await runner.lister.list_tools(request)).tools] == ["slow"]
    runner.scripted.tools.append(make_tool("added"))
    assert [tool.name for tool in (await runner.lister.list_tools(request)).tools] == ["slow"]
    fresh = await runner.lister.list_tools(make_request(runner.agent, fresh=True))
    assert [tool.name for tool in fresh.tools] == ["added", "slow"]
    missing = await runner.lister.list_tools(make_request(runner.gone, fresh=True))
    assert missing.tools == ()
    (server,) = missing.unavailable
    assert (server.server, server.reason) == ("gone", "The tool server could not be reached.")
