"""How much of RESULTS one account may take."""

import asyncio
import json

import httpx2
import pytest

from bus import Bus
from bus.streams import STREAMS
from directory.agents import McpServer
from directory.secrets import Sealer
from journal import Journal
from net_guard import Guard, Resolver
from runtime.postgres import open_pool
from tests.tool_runner.runner import SECRET_KEY, Calls, make_agent
from tests.tool_runner.scripted import Call, serving, tool
from tool_runner.calls.call_slots import ACCOUNT_BYTES, WINDOW_SECONDS, ResultQuota
from tool_runner.calls.executor import Executor
from tool_runner.calls.handler import CallHandler
from tool_runner.servers.agent_servers import AgentServers
from tool_runner.servers.pool import ServerPool
from tool_runner.time_limit import DatabaseClock

pytestmark = pytest.mark.requirement("RESULTS-SHARE")


def test_an_account_is_refused_what_exceeds_its_share_and_others_are_not() -> None:
    quota = ResultQuota(100)
    assert quota.take("a", 60, now=0.0)
    assert not quota.take("a", 50, now=1.0)
    assert quota.take("b", 100, now=1.0)
    assert quota.take("a", 40, now=2.0)


def test_what_was_published_a_window_ago_counts_no_more() -> None:
    quota = ResultQuota(100)
    assert quota.take("a", 60, now=0.0)
    assert quota.take("a", 40, now=30.0)
    assert not quota.take("a", 1, now=WINDOW_SECONDS)
    assert quota.take("a", 60, now=WINDOW_SECONDS + 1)
    assert not quota.take("a", 1, now=WINDOW_SECONDS + 2)


def test_a_share_is_a_small_part_of_the_stream() -> None:
    (results,) = (stream for stream in STREAMS if stream["name"] == "RESULTS")
    assert results["max_bytes"] >= 8 * ACCOUNT_BYTES


async def test_a_call_beyond_the_share_is_answered_with_an_error_and_another_account_is_served(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    async def answer(call: Call) -> None:
        await call.text(json.dumps("x" * 1000))

    async with (
        serving(answer, [tool("big", readOnlyHint=True)]) as scripted,
        open_pool(migrated_database_url) as pool,
        Bus.connect(fresh_nats_url, name="test") as bus,
        asyncio.TaskGroup() as group,
    ):
        servers = ServerPool(Guard([f"127.0.0.1:{scripted.port}"], Resolver()), httpx2.create_ssl_context())
        scripted.clients.append(lambda: servers.close(5.0))
        executor = Executor(AgentServers(pool, Sealer.from_setting(SECRET_KEY)), servers)
        handler = CallHandler(
            bus, executor, Journal(pool, "test"), DatabaseClock(pool), ResultQuota(1500), slots=2
        )
        stop = asyncio.Event()
        group.create_task(bus.queues.consume("TOOLS", handler.handle, slots=2, stop=stop))
        server = McpServer(name="scripted", url=scripted.url)
        one, other = [await make_agent(migrated_database_url, server) for _ in range(2)]
        calls = Calls(bus)
        first, second = [await calls.finish(one.call("big")) for _ in range(2)]
        others = await calls.finish(other.call("big"))
        stop.set()
    assert not first.is_error
    assert second.is_error
    assert "returned too much" in json.loads(second.output)["error"]
    assert not others.is_error
