"""What one account does to a tool-runner, and may take of RESULTS, delays no other account's calls."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from agentchat.bus.bus import Bus
from agentchat.bus.streams import STREAMS
from agentchat.directory.agent_config import McpServer
from agentchat.directory.secrets import Sealer
from agentchat.net_guard import Guard, Resolver
from agentchat.runtime.postgres import open_pool
from agentchat.tool_runner.calls.executor import Executor
from agentchat.tool_runner.calls.handler import CallHandler
from agentchat.tool_runner.calls.result_quota import ACCOUNT_BYTES, WINDOW_SECONDS, ResultQuota
from agentchat.tool_runner.database_clock import DatabaseClock
from agentchat.tool_runner.journal import Journal
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.server_pool import ServerPool
from tests.tool_runner.runner import SECONDS, SECRET_KEY, Agent, Calls, make_agent, make_environ, start_runner
from tests.tool_runner.scripted import Call, make_tool, serve_script

SLOTS = 8
BUSY = {"error": "Too many tool calls are under way, so this one was not started. Try again later."}
# The account's calls lasted 30 s, and another's waited for them; with turns it is milliseconds.
PROMPT_SECONDS = 20.0


class World:
    """One runner; an account whose servers never answer, and one whose server does."""

    def __init__(self, calls: Calls, hanging: Agent, sound: Agent, hung: asyncio.Semaphore) -> None:
        self.calls = calls
        self.hanging = hanging
        self.sound = sound
        self._hung = hung

    async def full(self) -> None:
        """The account has all the slots that it may have."""
        async with asyncio.timeout(SECONDS):
            for _ in range(SLOTS // 2):
                await self._hung.acquire()


@pytest.fixture
async def world(fresh_nats_url: str, migrated_database_url: str) -> AsyncIterator[World]:
    hung = asyncio.Semaphore(0)

    async def hang(_call: Call) -> None:
        hung.release()
        await asyncio.sleep(60)

    async def echo(call: Call) -> None:
        await call.send_text(json.dumps(call.arguments))

    async with contextlib.AsyncExitStack() as stack:
        silent = await stack.enter_async_context(serve_script(hang, [make_tool("hang", readOnlyHint=True)]))
        sound = await stack.enter_async_context(serve_script(echo))
        env = make_environ(
            fresh_nats_url,
            migrated_database_url,
            [f"127.0.0.1:{silent.port}", f"127.0.0.1:{sound.port}"],
            AGENTCHAT_TOOL_SLOTS=str(SLOTS),
        )
        servers = (
            McpServer(name=f"silent{number}", url=silent.url, headers={"X-Number": str(number)})
            for number in range(4)
        )
        hanging = await make_agent(migrated_database_url, *servers)
        healthy = await make_agent(migrated_database_url, McpServer(name="scripted", url=sound.url))
        await stack.enter_async_context(start_runner(env))
        bus = await stack.enter_async_context(Bus.connect(fresh_nats_url, name="test"))
        yield World(Calls(bus), hanging, healthy, hung)


async def test_servers_that_do_not_answer_delay_no_other_account(world: World) -> None:
    """100 calls of one account: 4 run, 28 wait in the runner, and the others in the queue."""
    flood = [world.hanging.call("hang", f"silent{number % 4}") for number in range(100)]
    for request in flood:
        await world.calls.bus.queues.request_tool(request)
    await world.full()
    for number in range(3):
        began = time.monotonic()
        finished = await world.calls.finish(world.sound.call("echo", input={"n": number}))
        assert finished.output == f'{{"n": {number}}}'
        assert finished.is_error is False
        assert time.monotonic() - began < PROMPT_SECONDS
    began = time.monotonic()
    assert [spec.name for spec in (await world.calls.list_tools(world.sound)).tools] == ["echo"]
    assert time.monotonic() - began < PROMPT_SECONDS

    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    refused = await world.calls.finish(world.hanging.call("hang", "silent0", deadline=soon))
    assert json.loads(refused.output) == BUSY
    assert refused.is_error


def test_only_the_account_over_its_share_is_refused() -> None:
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
    (results,) = (stream for stream in STREAMS if stream.name == "RESULTS")
    assert (results.max_bytes or 0) >= 8 * ACCOUNT_BYTES


async def test_call_over_share_fails_and_other_account_is_served(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    async def answer(call: Call) -> None:
        await call.send_text(json.dumps("x" * 1000))

    async with (
        serve_script(answer, [make_tool("big", readOnlyHint=True)]) as scripted,
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
