"""Overload: requests beyond the run slots wait in the queue until their deadlines, and metrics show it."""

import asyncio
from datetime import UTC, datetime, timedelta

from structlog.testing import capture_logs

from agentchat.contracts import frames
from agentchat.orchestrator.services import Timings
from agentchat.runtime import metrics
from tests.orchestrator.given import World, wait_until_logged
from tests.orchestrator.scripted import is_holding
from tests.support.scraped import counts_in


async def test_requests_beyond_slots_wait_until_deadline(
    world: World,
) -> None:
    gate = asyncio.Event()
    world.will(is_holding(gate, "..."))
    agent = await world.agent()
    with capture_logs() as logged:
        async with world.worker("full", timings=Timings(load_seconds=0.1), run_slots=1):
            first = await world.ask(agent)
            await first.until(frames.DeltaFrame)
            soon = datetime.now(UTC) + timedelta(seconds=1)
            impatient = await world.ask(agent, deadline=soon.isoformat().replace("+00:00", "Z"))
            patient = await world.ask(agent)
            seen = await wait_until_logged(
                logged, lambda line: line["event"] == "requests_waiting_for_slot" and line["waiting"] == 2
            )
            shown = metrics.render_metrics().decode()
            gate.set()
            assert (await impatient.until(frames.Refused)).code == "overloaded"
            await patient.until(frames.Completed)
    assert (seen["slots_used"], seen["slots"]) == (1, 1)
    assert seen["oldest_seconds"] >= 1.0
    assert await world.events(impatient) == []
    gauges = ("agentchat_runs_slots", "agentchat_runs_slots_used", "agentchat_requests_waiting")
    assert [counts_in(shown, name)["worker=full"] for name in gauges] == [1, 1, 2]
    assert counts_in(shown, "agentchat_requests_oldest_seconds")["worker=full"] >= 1.0
