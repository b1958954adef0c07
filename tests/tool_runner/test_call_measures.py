"""Calls are measured without the wait for a slot, refused ones not at all; a new tool is found at once."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import REGISTRY

from agentchat.contracts.tool_messages import ListTools
from agentchat.directory.agent_config import McpServer
from tests.ports import find_free_port
from tests.tool_runner.handling import Handling, handle_calls
from tests.tool_runner.runner import Agent, make_agent
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool, serve_script

CALL_SECONDS = 0.3


class World:
    """The handler of calls in this process, an agent with a server, and one whose server is gone."""

    def __init__(self, handling: Handling, agent: Agent, gone: Agent, scripted: ScriptedServer) -> None:
        self.calls = handling.calls
        self.lister = handling.lister
        self.agent = agent
        self.gone = gone
        self.scripted = scripted


@pytest.fixture
async def runner(fresh_nats_url: str, migrated_database_url: str) -> AsyncIterator[World]:
    async def answer(call: Call) -> None:
        await asyncio.sleep(CALL_SECONDS)
        await call.send_text("fine")

    port = find_free_port()
    async with (
        serve_script(answer, [make_tool("slow", readOnlyHint=True)]) as scripted,
        handle_calls(fresh_nats_url, migrated_database_url, scripted.port, port, slots=2) as handling,
    ):
        yield World(
            handling,
            await make_agent(migrated_database_url, McpServer(name="measured", url=scripted.url)),
            await make_agent(
                migrated_database_url, McpServer(name="gone", url=f"http://127.0.0.1:{port}/mcp")
            ),
            scripted,
        )


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


async def test_call_is_measured_without_the_wait_for_its_slot(runner: World) -> None:
    waits, waited = read("wait_seconds_count", begun="True"), read("wait_seconds_sum", begun="True")
    calls = [runner.calls.finish(runner.agent.call("slow", "measured")) for _ in range(4)]
    finished = await asyncio.gather(*calls)  # one at a time: an account has half of two slots
    assert max(each.ms for each in finished) < 2 * CALL_SECONDS * 1000
    assert read_calls() == {"ok": 4}
    total = read("calls_seconds_sum", server="measured", outcome="ok")
    assert 4 * CALL_SECONDS <= total < 7 * CALL_SECONDS
    assert read("wait_seconds_count", begun="True") - waits == 4
    assert read("wait_seconds_sum", begun="True") - waited > 5 * CALL_SECONDS


async def test_refused_call_is_not_measured(runner: World) -> None:
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


async def test_call_to_a_server_that_is_down_is_measured(runner: World) -> None:
    finished = await runner.calls.finish(runner.gone.call("slow", "gone"))
    assert finished.is_error
    assert read_calls("gone") == {"unreachable": 1}


async def test_added_tool_is_found_at_once(runner: World) -> None:
    first = await runner.calls.finish(runner.agent.call("slow", "measured"))
    assert not first.is_error
    runner.scripted.tools.append(make_tool("added", readOnlyHint=True))
    assert not (await runner.calls.finish(runner.agent.call("added", "measured"))).is_error
    assert len(runner.scripted.list_calls("tools/list")) == 2
    unknown = await runner.calls.finish(runner.agent.call("none", "measured"))
    assert len(runner.scripted.list_calls("tools/list")) == 3
    assert json.loads(unknown.output) == {"error": "This agent has no such tool."}


async def test_list_can_be_asked_for_afresh_and_names_missing_servers(runner: World) -> None:
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
