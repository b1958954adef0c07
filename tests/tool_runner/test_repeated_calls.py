"""A call that comes back for input: each time it is made it runs once."""

import json
from typing import Any

from msgspec.structs import replace

from agentchat.contracts.tool_messages import InputResponse, ToolFinished, ToolRequested
from agentchat.directory.agent_config import McpServer
from agentchat.tool_runner.journal import Journal
from tests.tool_runner.eliciting import open_restaurant
from tests.tool_runner.handling import handle_calls
from tests.tool_runner.runner import make_agent


def build_next_request(
    request: ToolRequested, finished: ToolFinished, content: dict[str, Any]
) -> ToolRequested:
    (question,) = finished.input_requests
    answer = InputResponse(
        key=question.key,
        elicitation=question.elicitation,
        leg=request.leg,
        action="accept",
        content=content,
    )
    return replace(
        request,
        leg=request.leg + 1,
        responses=(*request.responses, answer),
        request_state=finished.request_state,
    )


async def test_a_leg_that_was_started_before_is_not_run_again(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    async with (
        open_restaurant(newest=True) as restaurant,
        handle_calls(fresh_nats_url, migrated_database_url, restaurant.port) as runner,
    ):
        agent = await make_agent(migrated_database_url, McpServer(name="restaurant", url=restaurant.url))
        request = agent.call("book", "restaurant", input={"day": "Monday"})
        leg = build_next_request(request, await runner.calls.finish(request), {"guests": 4})
        other = Journal(runner.pool, "another runner")
        await other.claim(leg.trace_id, leg.leg_id, deadline=None, seconds=-1.0)
        lost = await runner.calls.finish(leg)
    assert "its result was lost" in lost.output
    assert lost.input_requests == ()


async def test_a_tool_that_never_stops_asking_is_ended(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    async with (
        open_restaurant(newest=False) as restaurant,
        handle_calls(fresh_nats_url, migrated_database_url, restaurant.port) as runner,
    ):
        agent = await make_agent(migrated_database_url, McpServer(name="restaurant", url=restaurant.url))
        request, count = agent.call("nag", "restaurant"), 0
        while (finished := await runner.calls.finish(request)).input_requests:
            request, count = build_next_request(request, finished, {"name": "Ada"}), count + 1
    assert count == 8
    assert json.loads(finished.output)["error"].startswith("The tool asked a person for input too often.")
