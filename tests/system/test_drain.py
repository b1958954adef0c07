"""A service that is told to stop finishes what it has begun."""

import asyncio
import signal

import pytest

from tests.harness import RunningStack
from tests.system.calling import Caller, Event, MakeAgent, events_of, text_of

_STREAMS = 12


@pytest.mark.slow
async def test_a_rolling_restart_drains_every_stream_to_its_end(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    slow = await make_agent("demo-load?deltas=30&delay_ms=50")
    whole = text_of(await slow.stream("tell me"))
    at = [slow.at(url) for url in stack.environment.gateway_urls]
    all_begun = asyncio.Barrier(_STREAMS + 1)

    async def events_at(caller: Caller) -> list[Event]:
        events = []
        async with caller.open_stream("tell me") as response:
            async for event in events_of(response):
                events.append(event)
                if len(events) == 5:
                    await all_begun.wait()
        return events

    streams = [asyncio.create_task(events_at(at[number % 2])) for number in range(_STREAMS)]
    async with asyncio.timeout(20):
        await all_begun.wait()
    names = ("gateway-1", "orchestrator-1")
    for name in names:
        stack.kill(name, signal.SIGTERM)
    told = await asyncio.gather(*streams)
    await asyncio.gather(*(stack.wait_ready(name) for name in names))
    assert [events[-1]["type"] for events in told] == ["done"] * len(told)
    assert [text_of(events) for events in told] == [whole] * len(told)
