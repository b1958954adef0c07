"""The fence: a worker that cannot know whether its leases are still its own sends no more of their runs."""

import asyncio
from datetime import datetime, timedelta

import psycopg
import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.ids import make_id
from agentchat.contracts.timings import HOLD_SECONDS
from agentchat.conversations.leases.leases import Leases, LeaseTimings
from agentchat.orchestrator.run.channel import LeaseFence, TraceChannel
from agentchat.orchestrator.run.interruption import Interrupted
from agentchat.orchestrator.services import Timings
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.orchestrator.given import SECONDS, World
from tests.orchestrator.scripted import reply_with

_SHORT_LEASE_SECONDS = 4
_SHORT_HOLD_SECONDS = 3.0


_SHORT = Timings(  # of leases, at about two fifths of their time; and a short drain
    leases=LeaseTimings(
        lease_seconds=_SHORT_LEASE_SECONDS,
        hold_seconds=_SHORT_HOLD_SECONDS,
        renewal_seconds=0.4,
        give_up_seconds=1.0,
    ),
    renew_seconds=0.4,
    renew_again_seconds=0.1,
    alive_look_seconds=0.1,
    drain_seconds=0.1,
)


async def test_a_worker_that_slept_looks_at_its_clock_before_the_next_frame(world: World) -> None:
    now = 0.0
    request = world.request("agent")
    caller = await world.listen(request)
    async with open_pool(world.settings.database_url, role=None) as pool:
        held = Leases(pool, "sleeper", clock=lambda: now)
        lease = await held.acquire(request.trace_id)
        assert lease is not None
        channel = TraceChannel(LeaseFence(world.bus.traces, lease), request.trace_id, 1)
        await channel.send_text("before")
        now = HOLD_SECONDS
        saying = asyncio.create_task(channel.send_text(", after"))
        await channel.send_alive()
        assert await held.renew() == set()
        await saying
        await caller.wait_until_said("before, after")
        now += HOLD_SECONDS + LeaseTimings().give_up_seconds
        with pytest.raises(Interrupted, match="lost"):
            await channel.send_text(" never")
        await channel.send(frames.Failed(seq=0, attempt=0, code="cancelled", message=""))
        await caller.wait_until_ended()
    assert [frame.seq for frame in caller.frames if frame.seq] == [1, 2, 3]
    assert channel.text == caller.text == "before, after"


@pytest.mark.slow
async def test_a_request_that_another_worker_has_taken_is_not_refused(world: World) -> None:
    """Its first worker finds no agent, but only when its lease is another's."""
    async with (
        world.worker(timings=_SHORT),
        await psycopg.AsyncConnection.connect(world.settings.database_url) as owner,
    ):
        async with owner.transaction():
            await owner.execute("LOCK TABLE agents")
            request = world.request(make_id())
            caller = await world.listen(request)
            await world.bus.queues.request_chat(request)
            await _take_by_another(world, request.trace_id)
            await asyncio.sleep(2 * _SHORT_HOLD_SECONDS / 3)  # until a renewal has found that it is lost
        with pytest.raises(TimeoutError):
            await caller.until(frames.Refused, seconds=1.0)
        await owner.execute("DELETE FROM run_leases WHERE trace_id = %s", [request.trace_id])
        await owner.commit()
        assert (await caller.until(frames.Refused)).code == "agent_not_found"


async def _take_by_another(world: World, trace_id: str) -> None:
    take = "UPDATE run_leases SET worker = 'another', expires_at = expires_at + interval '1 minute'"
    async with open_pool(world.settings.database_url, role=None) as pool, asyncio.timeout(40):
        while True:
            async with acquire_connection(pool) as conn:
                if (await conn.execute(f"{take} WHERE trace_id = %s".encode(), [trace_id])).rowcount:
                    return
            await asyncio.sleep(0.02)


async def test_the_clock_of_a_run_goes_on_while_what_else_is_read_is_late(world: World) -> None:
    world.will(reply_with("Hello."))
    request = world.request(await world.agent("demo-shop-1"))
    async with (
        world.worker(),
        open_pool(world.settings.database_url, role=None) as pool,
        acquire_connection(pool, seconds=SECONDS) as other,
    ):
        caller = await world.listen(request)
        async with other.transaction():
            await other.execute("LOCK TABLE waiting_line")
            await world.bus.queues.request_chat(world.again(request))
            async with asyncio.timeout(SECONDS):
                while not await Leases(pool, "onlooker").has_live_lease(request.trace_id):  # noqa: ASYNC110 - a row has no event
                    await asyncio.sleep(0.02)
            row = await (await other.execute("SELECT clock_timestamp(), pg_sleep(1.5)")).fetchone()
        assert row
        await caller.until(frames.Completed)
    (started,) = [event for event in await world.events(caller) if isinstance(event, events.RunStarted)]
    assert datetime.fromisoformat(started.at) - row[0] > timedelta(seconds=1)
