"""A tool call has its server's time-out, and no longer than its run has left."""

from collections.abc import AsyncIterator

import pytest

from agentchat.contracts.timings import TOOL_SLACK_SECONDS
from agentchat.conversations.aggregate.rounds import Call
from agentchat.orchestrator.run.run_clock import add_seconds
from tests.orchestrator.given import World
from tests.orchestrator.toolbox import SPECS, Toolbox, list_calls

OFFERED = {spec.name: spec for spec in SPECS}


@pytest.fixture
async def toolbox(system: World) -> AsyncIterator[Toolbox]:
    async with Toolbox(system.bus).open() as opened:
        yield opened


async def test_call_has_its_servers_time_out(system: World, toolbox: Toolbox) -> None:
    calls, clock = list_calls(system, seconds=600.0, most_seconds=40)
    call = Call(call_id="a", at=clock.now(), name="order", input={})
    await calls.run(1, (call,), OFFERED)
    await calls.close()
    (request,) = toolbox.requested
    assert request.timeout_s == 40.0
    assert request.deadline == add_seconds(call.at, 40.0 + TOOL_SLACK_SECONDS)


async def test_call_ends_with_its_run(system: World, toolbox: Toolbox) -> None:
    calls, clock = list_calls(system, seconds=20.0, most_seconds=300)
    run_ends_at = clock.after(20.0)
    call = Call(call_id="a", at=clock.now(), name="order", input={})
    await calls.run(1, (call,), OFFERED)
    await calls.close()
    (request,) = toolbox.requested
    assert request.deadline is not None
    assert request.deadline <= run_ends_at
