"""A tool call whose server reports progress is waited for, as long as that is news and the run has time."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from contracts.events import ToolReturned
from contracts.ids import new_id
from contracts.timings import TOOL_ANSWER_SECONDS
from contracts.tool_messages import ToolProgressed, ToolRequested
from conversations.aggregate.rounds import Call
from orchestrator.run.run_clock import RunClock, later
from orchestrator.tools.tool_calls import RunToolCalls
from tests.orchestrator.given import World
from tests.orchestrator.toolbox import NOW, SPECS, Toolbox, calls_of

OFFERED = {spec.name: spec for spec in SPECS}
short_calls = partial(calls_of, tool_seconds=0.5, slack_seconds=0.5)


@pytest.fixture
async def box(working: World) -> AsyncIterator[Toolbox]:
    async with Toolbox(working.bus).open() as opened:
        yield opened


async def progress(box: Toolbox, request: ToolRequested, deadline: str) -> None:
    await box.bus.traces.progress_tool(
        ToolProgressed(trace_id=request.trace_id, call_id=request.call_id, deadline=deadline)
    )


async def until_given_up(clock: RunClock, request: ToolRequested) -> None:
    """Until nobody waits for a call any more that has told no progress."""
    assert request.deadline is not None
    await asyncio.sleep(max(0.0, 1.0 + TOOL_ANSWER_SECONDS - clock.seconds_since(request.deadline)))


async def is_given_up(calls: RunToolCalls, clock: RunClock) -> None:
    call = Call(call_id="a", at=clock.now(), name="order", input={})
    async with asyncio.timeout(60):
        (returned,) = await calls.run(1, (call,), OFFERED)
    await calls.close()
    assert isinstance(returned, ToolReturned)
    assert "unknown" in returned.output


async def test_a_call_that_goes_on_is_waited_for(working: World, box: Toolbox) -> None:
    calls, clock = short_calls(working)

    async def run(request: ToolRequested) -> str:
        await progress(box, request, clock.after(60.0))
        await progress(box, request, clock.after(-60.0))  # one that comes late takes nothing back
        await until_given_up(clock, request)
        return '"done"'

    box.run = run
    call = Call(call_id="a", at=clock.now(), name="order", input={})
    (returned,) = await calls.run(1, (call,), OFFERED)
    await calls.close()
    assert isinstance(returned, ToolReturned)
    assert returned.output == '"done"'


async def test_old_progress_keeps_no_call_alive(working: World, box: Toolbox) -> None:
    calls, clock = short_calls(working)

    async def run(request: ToolRequested) -> None:
        await progress(box, request, clock.after(-1.0))

    box.run = run
    await is_given_up(calls, clock)


async def test_no_call_is_waited_for_past_the_end_of_its_run(working: World, box: Toolbox) -> None:
    calls, clock = short_calls(working, seconds=3.0)

    async def run(request: ToolRequested) -> None:
        await progress(box, request, clock.after(100_000.0))

    box.run = run
    await is_given_up(calls, clock)


@pytest.mark.parametrize(("most_seconds", "seconds"), [(40, 600.0), (300, 20.0)])
async def test_progress_defers_a_call_to_its_servers_bound_and_not_beyond_the_run(
    working: World, box: Toolbox, most_seconds: int, seconds: float
) -> None:
    calls, clock = calls_of(working, seconds=seconds, most_seconds=most_seconds)
    run_ends_at = clock.after(seconds)
    call = Call(call_id="a", at=clock.now(), name="order", input={})
    await calls.run(1, (call,), OFFERED)
    await calls.close()
    (request,) = box.requested
    assert request.ends_by is not None
    assert request.ends_by <= min(later(call.at, most_seconds), run_ends_at)
    assert request.ends_by > later(call.at, min(most_seconds, seconds) - 1.0)


@pytest.mark.parametrize("name", ["find", "order"])
async def test_the_next_worker_waits_for_what_goes_on_and_does_not_ask_again(
    working: World, box: Toolbox, name: str
) -> None:
    asked = Call(call_id="a", at=RunClock(NOW).after(-100.0), name=name, input={})
    trace_id = new_id().replace("-", "")
    calls, clock = calls_of(working, asked, trace_id=trace_id)
    request = ToolRequested(
        trace_id=trace_id,
        call_id="a",
        account_id="c",
        agent_id="g",
        agent_version=1,
        server="shop",
        tool=name,
        input={},
    )
    await progress(box, request, clock.after(60.0))
    running = asyncio.create_task(calls.run(1, (asked,), OFFERED))
    done, _ = await asyncio.wait({running}, timeout=1.0)
    assert not done, "nothing is known of it yet"
    await box.finish(request, '"done"')
    (returned,) = await running
    await calls.close()
    assert isinstance(returned, ToolReturned)
    assert returned.output == '"done"'
    assert box.requested == []
