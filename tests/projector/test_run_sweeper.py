"""Runs that nobody works on are requested again, and only those."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import wire
from agentchat.contracts.events import Event
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.timings import LEASE_SECONDS
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store import mapper
from agentchat.conversations.leases.abandoned_runs import claim_abandoned, forget_old_requests
from agentchat.conversations.leases.database_availability import record_availability
from agentchat.conversations.leases.leases import Leases
from agentchat.conversations.projections import approvals_table, runs_table
from agentchat.conversations.projections.rebuild_read_models import rebuild
from agentchat.projector.run_sweeper import Sweeper
from agentchat.runtime.postgres import acquire_connection
from tests.blocking import until_blocked_by
from tests.conversations.given import (
    ACCOUNT,
    build_run_failed,
    build_run_started,
    build_tool_returned,
    build_user_message,
    trace,
)
from tests.conversations.outages import make_available_for, make_steady, simulate_outage
from tests.conversations.test_approvals import ask, call_tool
from tests.harness import embedded_nats
from tests.projector.conftest import Published, World


async def begin_run(
    world: World, word: str = "a", thread: Conversation | None = None, *, seconds_ago: int = 60
) -> Conversation:
    at = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    stored: list[Event] = [
        replace(build_user_message(word), at=at),
        build_run_started(word, form="json", prompt_override="Be brief."),
    ]
    thread = thread or await world.add()
    return await world.store.append(thread, stored)


async def project(world: World) -> None:
    await world.follow([runs_table.PROJECTION])


def list_requested(published: Published) -> ChatRequested:
    return wire.decode_message(ChatRequested, published.data)


async def make_due(world: World, *, hours: int = 1) -> None:
    async with acquire_connection(world.pool) as conn:
        await conn.execute("UPDATE run_requests SET next_at = next_at - make_interval(hours => %s)", [hours])


async def test_an_abandoned_run_is_requested_again_with_its_own_facts(world: World) -> None:
    begun = await begin_run(world)
    await project(world)
    assert await Sweeper(world.bus, world.log, world.pool).sweep() == 1
    (published,) = await world.streams.list_messages("REQUESTS")
    assert published.subject == f"chat.requests.{ACCOUNT}"
    assert published.headers["Nats-Msg-Id"] == f"{trace('a')}:2"
    request = list_requested(published)
    assert (request.conversation_id, request.attempt) == (begun.conversation_id, 2)
    assert (request.message_id, request.message, request.form) == ("user-a", "Where is it?", "json")
    assert request.prompt == "Be brief."


async def test_a_run_is_left_alone_while_its_lease_lives(world: World) -> None:
    await begin_run(world)
    await project(world)
    leases = Leases(world.pool, "worker")
    lease = await leases.acquire(trace("a"))
    assert lease is not None
    assert await Sweeper(world.bus, world.log, world.pool).sweep() == 0
    await leases.release(trace("a"), lease)
    assert await Sweeper(world.bus, world.log, world.pool).sweep() == 1


async def test_no_run_is_requested_again_right_after_an_outage(
    world: World,
) -> None:
    await begin_run(world)
    await project(world)
    leases, sweeper = Leases(world.pool, "worker"), Sweeper(world.bus, world.log, world.pool)
    await leases.acquire(trace("a"))
    await simulate_outage(world.pool, LEASE_SECONDS + 5)
    assert await sweeper.sweep() == 0  # before anybody has noted that it is back
    await record_availability(world.pool)
    assert await sweeper.sweep() == 0
    await make_available_for(world.pool, LEASE_SECONDS - 1)
    assert await sweeper.sweep() == 0
    await make_available_for(world.pool, 1)
    assert await sweeper.sweep() == 1


async def test_a_run_that_has_just_started_is_left_to_its_worker(world: World) -> None:
    await begin_run(world, seconds_ago=5)
    await project(world)
    assert await Sweeper(world.bus, world.log, world.pool).sweep() == 0


async def test_ended_run_is_not_requested_by_a_late_read_model(world: World) -> None:
    begun = await begin_run(world)
    await project(world)
    await world.store.append(begun, [build_run_failed()])
    assert await Sweeper(world.bus, world.log, world.pool).sweep() == 0


async def test_unreadable_run_is_requested_until_it_is_ended(
    world: World,
) -> None:
    begun = await begin_run(world)
    await world.store.append_stored(begun.conversation_id, begun.version, [("unheard_of.v9", b"\xff")])
    await project(world)
    sweeper = Sweeper(world.bus, world.log, world.pool)
    assert await sweeper.sweep() == 1
    (published,) = await world.streams.list_messages("REQUESTS")
    assert list_requested(published).account_id == ACCOUNT
    await world.store.append_stored(
        begun.conversation_id, begun.version + 1, mapper.encode_pairs([build_run_failed()])
    )
    await make_due(world)
    assert await sweeper.sweep() == 0
    await project(world)
    assert await claim_abandoned(world.pool) == []


async def test_each_request_counts_on_and_leaves_the_workers_time(world: World) -> None:
    await begin_run(world)
    await project(world)
    sweeper = Sweeper(world.bus, world.log, world.pool)
    assert [await sweeper.sweep(), await sweeper.sweep()] == [1, 0]
    await make_due(world)
    assert await sweeper.sweep() == 1
    assert [list_requested(each).attempt for each in await world.streams.list_messages("REQUESTS")] == [2, 3]


async def test_of_several_sweepers_one_requests_a_run(world: World) -> None:
    begun = await begin_run(world)
    await project(world)
    trace_id = begun.runs[0].trace_id
    async with await psycopg.AsyncConnection.connect(world.url) as first:
        # Both find the run due, and wait for what a third is about to count.
        await first.execute("INSERT INTO run_requests VALUES (%s, 1, clock_timestamp())", [trace_id])
        sweepers = [Sweeper(world.bus, world.log, world.pool) for _ in range(2)]
        sweeping = [asyncio.create_task(each.sweep()) for each in sweepers]
        await until_blocked_by(first, 2)
        await first.commit()
    assert sorted(await asyncio.gather(*sweeping)) == [0, 1]
    assert [list_requested(each).attempt for each in await world.streams.list_messages("REQUESTS")] == [2]


async def test_a_rebuilt_read_model_does_not_set_the_count_back(world: World) -> None:
    await begin_run(world)
    await project(world)
    await Sweeper(world.bus, world.log, world.pool).sweep()
    await rebuild(world.pool, world.log, [runs_table.PROJECTION])
    await make_due(world)
    await Sweeper(world.bus, world.log, world.pool).sweep()
    assert [list_requested(each).attempt for each in await world.streams.list_messages("REQUESTS")] == [2, 3]


async def test_the_oldest_come_first_and_only_so_many_at_a_time(world: World) -> None:
    for place in range(5):
        await begin_run(world, f"w{place}", seconds_ago=100 - place)
    await project(world)
    first = await claim_abandoned(world.pool, limit=3)
    second = await claim_abandoned(world.pool, limit=3)
    assert [each.trace_id for each in (*first, *second)] == [trace(f"w{place}") for place in range(5)]


async def test_counts_are_forgotten_an_hour_after_the_run_has_ended(world: World) -> None:
    begun = await begin_run(world)
    await project(world)
    await claim_abandoned(world.pool)
    await make_due(world, hours=2)
    await forget_old_requests(world.pool)
    (again,) = await claim_abandoned(world.pool)
    assert again.attempt == 3
    await world.store.append(begun, [build_run_failed()])
    await project(world)
    await make_due(world, hours=2)
    await forget_old_requests(world.pool)
    async with acquire_connection(world.pool) as conn:
        assert await (await conn.execute("SELECT * FROM run_requests")).fetchall() == []


async def test_nothing_is_claimed_while_nats_is_away(world: World) -> None:
    await begin_run(world)
    await project(world)
    async with embedded_nats() as url:
        connecting = Bus.connect(url, name="test")
        bus = await connecting.__aenter__()
    with pytest.raises(BusUnavailable):
        await Sweeper(bus, world.log, world.pool).sweep()
    await connecting.__aexit__(None, None, None)
    async with acquire_connection(world.pool) as conn:
        await make_steady(conn)  # nobody has noted so meanwhile
    assert [each.attempt for each in await claim_abandoned(world.pool)] == [2]


async def test_waiting_run_is_not_requested_before_it_expires(world: World) -> None:
    begun = await begin_run(world)
    await world.store.append(begun, [*call_tool("cancel_order"), build_tool_returned("c1"), ask()])
    await world.follow([runs_table.PROJECTION, approvals_table.PROJECTION])
    async with acquire_connection(world.pool) as conn:
        await conn.execute("UPDATE approvals SET expires_at = '9999-01-01T00:00:00.000000Z'")
    assert await Sweeper(world.bus, world.log, world.pool).sweep() == 0
    async with acquire_connection(world.pool) as conn:
        await conn.execute("UPDATE approvals SET expires_at = '2001-01-01T00:00:00.000000Z'")
    assert await Sweeper(world.bus, world.log, world.pool).sweep() == 1
