"""A call that comes back for input: each time it is made it runs once, whatever becomes of runners."""

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.contracts.tool_messages import InputResponse, ToolFinished, ToolRequested
from agentchat.directory.agent_config import McpServer
from agentchat.runtime.postgres import open_pool
from agentchat.tool_runner.journal import Journal
from tests.tool_runner.eliciting import GUESTS, NAME, open_restaurant
from tests.tool_runner.runner import Agent, Calls, make_agent, make_environ, start_runner


@pytest.fixture
async def calls(fresh_nats_url: str) -> AsyncIterator[Calls]:
    async with Bus.connect(fresh_nats_url, name="test") as bus:
        yield Calls(bus)


def next_request(request: ToolRequested, finished: ToolFinished, content: dict[str, Any]) -> ToolRequested:
    (asked,) = finished.input_requests
    said = InputResponse(
        key=asked.key, elicitation=asked.elicitation, leg=request.leg, action="accept", content=content
    )
    return replace(
        request,
        leg=request.leg + 1,
        responses=(*request.responses, said),
        request_state=finished.request_state,
    )


def asked(finished: ToolFinished) -> str:
    return finished.input_requests[0].elicitation.message


@pytest.mark.slow
@pytest.mark.parametrize("newest", [True, False], ids=["2026-07-28", "2025-11-25"])
async def test_a_call_goes_on_at_another_runner_once_the_first_was_killed(
    newest: bool, fresh_nats_url: str, migrated_database_url: str, calls: Calls
) -> None:
    async with open_restaurant(newest=newest) as restaurant:
        agent = await make_agent(migrated_database_url, McpServer(name="restaurant", url=restaurant.url))
        env = make_environ(fresh_nats_url, migrated_database_url, [f"127.0.0.1:{restaurant.port}"])
        request = agent.call("book", "restaurant", input={"day": "Monday"})
        async with start_runner(env) as runner:
            first = await calls.finish(request)
            assert (asked(first), first.is_error) == (GUESTS, True)
            assert json.loads(first.output) == {
                "error": "The tool asks a person for input, which is not possible here."
            }
            runner.signal(signal.SIGKILL)
            await runner.wait_for_end()
        async with start_runner(env) as runner:
            request = next_request(request, first, {"guests": 4})
            second = await calls.finish(request)
            assert (asked(second), second.leg) == (NAME.format(4), 1)
            runner.signal(signal.SIGKILL)
            await runner.wait_for_end()
        async with start_runner(env):
            done = await calls.finish(next_request(request, second, {"name": "Ada"}))
        assert (done.output, done.leg) == ('{"result":"Booked: Monday, 4, Ada."}', 2)
        assert restaurant.booked == ["Monday, 4, Ada"]


async def test_a_leg_that_was_begun_before_is_not_run_again(
    fresh_nats_url: str, migrated_database_url: str, calls: Calls
) -> None:
    async with open_restaurant(newest=True) as restaurant, open_pool(migrated_database_url) as pool:
        agent: Agent = await make_agent(
            migrated_database_url, McpServer(name="restaurant", url=restaurant.url)
        )
        env = make_environ(fresh_nats_url, migrated_database_url, [f"127.0.0.1:{restaurant.port}"])
        async with start_runner(env):
            request = agent.call("book", "restaurant", input={"day": "Monday"})
            one = next_request(request, await calls.finish(request), {"guests": 4})
            other = Journal(pool, "another runner")
            await other.claim(one.trace_id, one.leg_id, deadline=None, seconds=-1.0)
            lost = await calls.finish(one)
            assert "its result was lost" in lost.output
            assert lost.input_requests == ()


async def test_a_tool_that_never_stops_asking_is_ended(
    fresh_nats_url: str, migrated_database_url: str, calls: Calls
) -> None:
    async with open_restaurant(newest=False) as restaurant:
        agent = await make_agent(migrated_database_url, McpServer(name="restaurant", url=restaurant.url))
        env = make_environ(fresh_nats_url, migrated_database_url, [f"127.0.0.1:{restaurant.port}"])
        async with start_runner(env):
            request, count = agent.call("nag", "restaurant"), 0
            while (finished := await calls.finish(request)).input_requests:
                request, count = next_request(request, finished, {"name": "Ada"}), count + 1
        assert count == 8
        assert json.loads(finished.output)["error"].startswith("The tool asked a person for input too often.")
