"""The progress that a tool server reports of a running call becomes live frames, a few a second."""

import pytest

from agentchat.contracts import frames
from agentchat.directory.agent_config import McpServer
from tests.tool_runner.eliciting import open_restaurant
from tests.tool_runner.handling import handle_calls
from tests.tool_runner.runner import make_agent


@pytest.mark.parametrize("newest", [True, False])
async def test_reports_are_published_while_the_tool_runs(
    nats_url: str, migrated_database_url: str, newest: bool
) -> None:
    async with (
        open_restaurant(newest=newest) as restaurant,
        handle_calls(nats_url, migrated_database_url, restaurant.port) as handling,
    ):
        agent = await make_agent(migrated_database_url, McpServer(name="restaurant", url=restaurant.url))
        request = agent.call("cook", "restaurant")
        reported: list[frames.Frame] = []

        def serve(frame: frames.Frame) -> None:
            reported.append(frame)
            restaurant.served.set()

        following = await handling.calls.bus.traces.follow_trace(request.trace_id, serve)
        finished = await handling.calls.finish(request)
        await following.close()
    assert not finished.is_error, "it was served, so a report has come before the result"
    first, *others = (frame for frame in reported if isinstance(frame, frames.ToolProgressFrame))
    assert (first.seq, first.call_id, first.total) == (0, request.call_id, 100.0)
    assert first.message == f"Step {round(first.progress)}\N{REPLACEMENT CHARACTER}"
    assert len(others) < 20, "of a hundred at once"
