"""What one account does to a tool-runner delays no other account's calls."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from bus import Bus
from directory.agents import McpServer
from runtime.fair_slots import SlotsClosed
from tests.tool_runner.runner import SECONDS, Agent, Calls, environ, make_agent, running
from tests.tool_runner.scripted import Call, serving, tool
from tool_runner.calls.call_slots import Slots

pytestmark = pytest.mark.requirement("FAIR-TURNS")

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
        await call.text(json.dumps(call.arguments))

    async with contextlib.AsyncExitStack() as stack:
        silent = await stack.enter_async_context(serving(hang, [tool("hang", readOnlyHint=True)]))
        sound = await stack.enter_async_context(serving(echo))
        env = environ(
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
        await stack.enter_async_context(running(env))
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
    assert [spec.name for spec in (await world.calls.listed(world.sound)).tools] == ["echo"]
    assert time.monotonic() - began < PROMPT_SECONDS

    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    refused = await world.calls.finish(world.hanging.call("hang", "silent0", deadline=soon))
    assert json.loads(refused.output) == BUSY
    assert refused.is_error


async def test_shutdown_puts_back_every_waiting_call() -> None:
    slots = Slots(4)
    for account in ("a", "b", "c", "d"):
        await slots.take(account, "server")
    waiting = [asyncio.create_task(slots.take("waits", "server")) for _ in range(4)]
    await asyncio.sleep(0)  # until they wait
    slots.close()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ended] == [SlotsClosed] * 4
