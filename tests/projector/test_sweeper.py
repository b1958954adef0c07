"""Runs that nobody works on are requested again, and only those."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from bus import Bus, BusUnavailable
from contracts import wire
from contracts.events import Event
from contracts.ids import new_id
from contracts.messages import ChatRequested
from contracts.timings import LEASE_SECONDS
from conversations.aggregate.conversation import Conversation
from conversations.event_store import mapper
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.leases.abandoned_runs import claim_abandoned, forget_old_requests
from conversations.leases.availability import note_available
from conversations.leases.leases import Leases
from conversations.projections import approvals_table, open_runs_table
from conversations.projections.follower import Follower
from conversations.projections.rebuilding import rebuild
from projector.sweeper import Sweeper
from runtime.postgres import Pool, connection, open_pool
from tests.conversations.given import ACCOUNT, asked, began, failed, returned, started, trace, turn
from tests.conversations.outages import away, there_for
from tests.conversations.test_approvals import called, question
from tests.harness import embedded_nats
from tests.projector.conftest import Published, Streams
from tests.support.proxy import proxied

pytestmark = pytest.mark.requirement("SWEEPER")


async def begin_run(
    store: ConversationStore, word: str = "a", thread: Conversation | None = None, *, seconds_ago: int = 60
) -> Conversation:
    at = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    stored: list[Event] = [
        replace(asked(word), at=at),
        started(word, form="json", prompt_override="Be brief."),
    ]
    thread = thread or await store.append(Conversation(conversation_id=new_id()), [began()])
    return await store.append(thread, stored)


async def project(pool: Pool, log: Log) -> None:
    follower = Follower(pool, log, [open_runs_table.PROJECTION])
    while await follower.step():
        pass


def requested(published: Published) -> ChatRequested:
    return wire.decode_message(ChatRequested, published.data)


async def make_due(pool: Pool, *, hours: int = 1) -> None:
    async with connection(pool) as conn:
        await conn.execute("UPDATE run_requests SET next_at = next_at - make_interval(hours => %s)", [hours])


async def test_an_abandoned_run_is_requested_again_with_its_own_facts(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    begun = await begin_run(store)
    await project(pool, log)
    assert await Sweeper(bus, log, pool).sweep() == 1
    (published,) = await streams.contents("REQUESTS")
    assert published.subject == f"chat.requests.{ACCOUNT}"
    assert published.headers["Nats-Msg-Id"] == f"{trace('a')}:2"
    request = requested(published)
    assert (request.conversation_id, request.attempt) == (begun.conversation_id, 2)
    assert (request.message_id, request.message, request.form) == ("user-a", "Where is it?", "json")
    assert request.prompt == "Be brief."


async def test_of_its_thread_only_the_run_is_read(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams, migrated_database_url: str
) -> None:
    begun = await store.append(
        Conversation(conversation_id=new_id()), [began(), *turn("before", "x" * 400_000, "y" * 400_000)]
    )
    await begin_run(store, "large", begun)
    await project(pool, log)
    async with proxied(migrated_database_url) as (proxy, url), open_pool(url) as counted:
        assert await Sweeper(bus, Log(counted), pool).sweep() == 1
        assert 0 < proxy.received < 50_000
    (published,) = await streams.contents("REQUESTS")
    assert requested(published).message_id == "user-large"


async def test_a_run_is_left_alone_while_its_lease_lives(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool
) -> None:
    await begin_run(store)
    await project(pool, log)
    leases = Leases(pool, "worker")
    lease = await leases.acquire(trace("a"))
    assert lease is not None
    assert await Sweeper(bus, log, pool).sweep() == 0
    await leases.release(trace("a"), lease)
    assert await Sweeper(bus, log, pool).sweep() == 1


@pytest.mark.requirement("LEASE-OUTAGE")
async def test_after_an_outage_of_postgres_a_run_is_left_to_its_worker_for_as_long_as_a_lease_lasts(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool
) -> None:
    await begin_run(store)
    await project(pool, log)
    leases, sweeper = Leases(pool, "worker"), Sweeper(bus, log, pool)
    await leases.acquire(trace("a"))
    await away(pool, LEASE_SECONDS + 5)
    assert await sweeper.sweep() == 0  # before anybody has noted that it is back
    await note_available(pool)
    assert await sweeper.sweep() == 0
    await there_for(pool, LEASE_SECONDS - 1)
    assert await sweeper.sweep() == 0
    await there_for(pool, 1)
    assert await sweeper.sweep() == 1


async def test_a_run_that_has_just_begun_is_left_to_its_worker(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool
) -> None:
    await begin_run(store, seconds_ago=5)
    await project(pool, log)
    assert await Sweeper(bus, log, pool).sweep() == 0


async def test_a_run_that_has_ended_is_not_requested_even_if_the_read_model_is_behind(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool
) -> None:
    begun = await begin_run(store)
    await project(pool, log)
    await store.append(begun, [failed()])
    assert await Sweeper(bus, log, pool).sweep() == 0


@pytest.mark.requirement("UNREADABLE")
async def test_a_run_with_an_event_that_cannot_be_read_is_requested_until_a_worker_has_ended_it(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    begun = await begin_run(store)
    await store.append_stored(begun.conversation_id, begun.version, [("unheard_of.v9", b"\xff")])
    await project(pool, log)
    sweeper = Sweeper(bus, log, pool)
    assert await sweeper.sweep() == 1
    (published,) = await streams.contents("REQUESTS")
    assert requested(published).account_id == ACCOUNT
    await store.append_stored(begun.conversation_id, begun.version + 1, mapper.stored([failed()]))
    await make_due(pool)
    assert await sweeper.sweep() == 0
    await project(pool, log)
    assert await claim_abandoned(pool) == []


async def test_each_request_counts_on_and_leaves_the_workers_time(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    await begin_run(store)
    await project(pool, log)
    sweeper = Sweeper(bus, log, pool)
    assert [await sweeper.sweep(), await sweeper.sweep()] == [1, 0]
    await make_due(pool)
    assert await sweeper.sweep() == 1
    assert [requested(each).attempt for each in await streams.contents("REQUESTS")] == [2, 3]


async def test_a_rebuilt_read_model_does_not_set_the_count_back(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    await begin_run(store)
    await project(pool, log)
    await Sweeper(bus, log, pool).sweep()
    await rebuild(pool, log, [replace(open_runs_table.PROJECTION, version=2)])
    await make_due(pool)
    await Sweeper(bus, log, pool).sweep()
    assert [requested(each).attempt for each in await streams.contents("REQUESTS")] == [2, 3]


async def test_the_oldest_come_first_and_only_so_many_at_a_time(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    for place in range(5):
        await begin_run(store, f"w{place}", seconds_ago=100 - place)
    await project(pool, log)
    first = await claim_abandoned(pool, limit=3)
    second = await claim_abandoned(pool, limit=3)
    assert [each.trace_id for each in (*first, *second)] == [trace(f"w{place}") for place in range(5)]


async def test_counts_are_forgotten_an_hour_after_the_run_has_ended(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    begun = await begin_run(store)
    await project(pool, log)
    await claim_abandoned(pool)
    await make_due(pool, hours=2)
    await forget_old_requests(pool)
    (again,) = await claim_abandoned(pool)
    assert again.attempt == 3
    await store.append(begun, [failed()])
    await project(pool, log)
    await make_due(pool, hours=2)
    await forget_old_requests(pool)
    async with connection(pool) as conn:
        assert await (await conn.execute("SELECT * FROM run_requests")).fetchall() == []


async def test_nothing_is_claimed_while_nats_is_away(store: ConversationStore, log: Log, pool: Pool) -> None:
    await begin_run(store)
    await project(pool, log)
    async with embedded_nats() as url:
        connecting = Bus.connect(url, name="test")
        bus = await connecting.__aenter__()
    with pytest.raises(BusUnavailable):
        await Sweeper(bus, log, pool).sweep()
    await connecting.__aexit__(None, None, None)
    assert [each.attempt for each in await claim_abandoned(pool)] == [2]


@pytest.mark.requirement("APPROVAL-PARK", "APPROVAL-EXPIRY")
async def test_a_run_that_waits_for_a_person_is_left_alone_until_its_time_is_over(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool
) -> None:
    begun = await begin_run(store)
    await store.append(begun, [*called("cancel_order"), returned("c1"), question()])
    follower = Follower(pool, log, [open_runs_table.PROJECTION, approvals_table.PROJECTION])
    while await follower.step():
        pass
    async with connection(pool) as conn:
        await conn.execute("UPDATE approvals SET expires_at = '9999-01-01T00:00:00.000000Z'")
    assert await Sweeper(bus, log, pool).sweep() == 0
    async with connection(pool) as conn:
        await conn.execute("UPDATE approvals SET expires_at = '2001-01-01T00:00:00.000000Z'")
    assert await Sweeper(bus, log, pool).sweep() == 1
