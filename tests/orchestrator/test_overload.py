"""Overload: requests beyond the run slots wait in the queue until their deadlines, and metrics show it."""

import asyncio
from datetime import UTC, datetime, timedelta

from structlog.testing import capture_logs

from contracts import frames
from orchestrator.orchestrator_services import Timings
from runtime import metrics
from tests.orchestrator.given import World, until_logged
from tests.orchestrator.scripted import holds
from tests.system.collector import collector


async def test_requests_beyond_the_run_slots_wait_until_their_deadline_and_are_seen_to_wait(
    world: World,
) -> None:
    gate = asyncio.Event()
    world.will(holds(gate, "..."))
    agent = await world.agent()
    with collector() as collected, capture_logs() as logged:
        metrics.start("orchestrator", "orchestrator-1", collected.endpoint)
        async with world.worker("full", timings=Timings(load_seconds=0.1), run_slots=1):
            first = await world.ask(agent)
            await first.until(frames.Delta)
            soon = datetime.now(UTC) + timedelta(seconds=1)
            impatient = await world.ask(agent, deadline=soon.isoformat().replace("+00:00", "Z"))
            patient = await world.ask(agent)
            seen = await until_logged(
                logged, lambda line: line["event"] == "requests_wait_for_a_slot" and line["waiting"] == 2
            )
            await asyncio.to_thread(metrics.stop)  # sends what it has
            gate.set()
            assert (await impatient.until(frames.Refused)).code == "overloaded"
            await patient.until(frames.Completed)
    assert (seen["slots_used"], seen["slots"]) == (1, 1)
    assert seen["oldest_seconds"] >= 1.0
    assert await world.events(impatient) == []
    gauges = ("agentchat.runs.slots", "agentchat.runs.slots_used", "agentchat.requests.waiting")
    assert [collected.counts_of(name) for name in gauges] == [
        {"worker=full": 1},
        {"worker=full": 1},
        {"worker=full": 2},
    ]
    assert collected.counts_of("agentchat.requests.oldest_seconds")["worker=full"] >= 1.0
