"""A run begun, and ended, by one statement: held to what the single calls do, and to what they refuse."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace

from agentchat.contracts.events import Event
from agentchat.contracts.ids import make_id
from agentchat.contracts.timings import LEASE_SECONDS
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store.append_statement import CLOCK_SECONDS, Condition, RunStart
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.leases.leases import Lease, Leases
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.blocking import until_blocked_by
from tests.conversations.given import ACCOUNT, begin, build_answer, build_conversation_started, build_delta
from tests.conversations.outages import make_steady, simulate_outage
from tests.support.proxy import run_proxy

_TOLD = Condition("%b::boolean[]", width=1)
"""The begin itself says whether it holds."""


@pytest.fixture
async def store(migrated_database_url: str) -> AsyncIterator[ConversationStore]:
    async with open_store(migrated_database_url, _TOLD) as opened:
        yield opened


class Asked:
    """A request for a new conversation, or for the next run of one."""

    def __init__(self, conversation: Conversation | None = None) -> None:
        self.trace_id = make_id()
        self.conversation = conversation or Conversation(conversation_id=make_id())
        self.events: list[Event] = [*begin(self.trace_id)]
        if conversation is None:
            self.events.insert(0, build_conversation_started())

    async def begin(
        self, store: ConversationStore, leases: Leases, *, fits: bool = True, clock_off: float = 0.0
    ) -> tuple[Conversation, Lease] | None:
        change = leases.plan_acquisition(self.trace_id)
        now = datetime.now(UTC) + timedelta(seconds=clock_off)
        at = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        events = [*self.events[:-1], replace(self.events[-1], worker=leases.worker)]
        begun = await store.append_start(self.conversation, events, change, RunStart(at, [fits]))
        return None if begun is None else (begun[0], leases.confirm_acquisition(change, begun[1]))


async def _lease_of(pool: Pool, trace_id: str) -> tuple[int, str, bool] | None:
    """Attempt, worker, and whether it lasts as long as a lease does."""
    query = (
        "SELECT attempt, worker, expires_at - clock_timestamp()"
        " BETWEEN make_interval(secs => %s) AND make_interval(secs => %s) FROM run_leases WHERE trace_id = %s"
    )
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(query, [LEASE_SECONDS - 8, LEASE_SECONDS, trace_id])).fetchone()
    return None if row is None else (row[0], row[1], row[2])


async def _find_holder(leases: Leases, pool: Pool, trace_id: str, *, seconds_ago: float) -> None:
    """Taken so long ago."""
    await leases.acquire(trace_id)
    async with acquire_connection(pool) as conn:
        await conn.execute(
            "UPDATE run_leases SET expires_at = expires_at - make_interval(secs => %s) WHERE trace_id = %s",
            [seconds_ago, trace_id],
        )


async def test_it_leaves_the_rows_that_the_single_calls_leave(store: ConversationStore, pool: Pool) -> None:
    leases = Leases(pool, "one")
    at_once, step_by_step = Asked(), Asked()
    begun = await at_once.begin(store, leases)
    lease = await leases.acquire(step_by_step.trace_id)
    appended = await store.append(step_by_step.conversation, step_by_step.events)
    assert begun is not None
    assert lease is not None
    assert begun[0].version == appended.version == 3
    assert await store.load(begun[0].conversation_id) == begun[0]
    assert await _lease_of(pool, at_once.trace_id) == await _lease_of(pool, step_by_step.trace_id)
    assert await leases.renew() == set()
    assert datetime.fromisoformat(lease.now) - datetime.fromisoformat(begun[1].now) < timedelta(seconds=30)


@pytest.mark.parametrize("why", ["condition", "clock before", "clock behind", "version", "line", "lease"])
async def test_what_speaks_against_it_leaves_nothing_and_harms_no_other(
    store: ConversationStore, pool: Pool, why: str
) -> None:
    leases, other = Leases(pool, "one"), Leases(pool, "two")
    refused = Asked()
    held = None
    match why:
        case "version":
            await store.append(refused.conversation, [build_conversation_started()])
        case "line":
            line = WaitingLine(pool, "two")
            await line.join(refused.conversation.conversation_id, make_id(), subtract_seconds(), ACCOUNT)
        case "lease":
            await other.acquire(refused.trace_id)
            held = await _lease_of(pool, refused.trace_id)
        case _:
            pass
    before = await store.load(refused.conversation.conversation_id)
    off = {"clock before": -2 * CLOCK_SECONDS, "clock behind": 2 * CLOCK_SECONDS}.get(why, 0.0)
    outcomes = await asyncio.gather(
        *(Asked().begin(store, leases) for _ in range(5)),
        refused.begin(store, leases, fits=why != "condition", clock_off=off),
        *(Asked().begin(store, leases) for _ in range(5)),
    )
    assert outcomes.pop(5) is None
    assert None not in outcomes
    assert await store.load(before.conversation_id) == before
    assert await _lease_of(pool, refused.trace_id) == held


async def test_its_own_place_in_the_queue_does_not_block_it(store: ConversationStore, pool: Pool) -> None:
    request = Asked()
    line = WaitingLine(pool, "two")
    await line.join(request.conversation.conversation_id, request.trace_id, subtract_seconds(), ACCOUNT)
    assert await request.begin(store, Leases(pool, "one"))


async def test_an_expired_lease_is_taken_as_another_attempt(store: ConversationStore, pool: Pool) -> None:
    async with acquire_connection(pool) as conn:
        await make_steady(conn)
    request, one = Asked(), Leases(pool, "one")
    await _find_holder(Leases(pool, "two"), pool, request.trace_id, seconds_ago=LEASE_SECONDS)
    assert await request.begin(store, one)
    assert await _lease_of(pool, request.trace_id) == (2, one.worker, True)


async def test_a_lease_that_expired_in_an_outage_is_not_taken(store: ConversationStore, pool: Pool) -> None:
    request = Asked()
    await _find_holder(Leases(pool, "two"), pool, request.trace_id, seconds_ago=LEASE_SECONDS)
    await simulate_outage(pool, LEASE_SECONDS + 5)
    assert await request.begin(store, Leases(pool, "one")) is None


async def test_of_two_workers_one_begins_the_run_of_a_request(
    migrated_database_url: str, store: ConversationStore, pool: Pool
) -> None:
    async with open_store(migrated_database_url, _TOLD) as other:
        for _ in range(10):
            request = Asked()
            outcomes = await asyncio.gather(
                request.begin(store, Leases(pool, "one")), request.begin(other, Leases(pool, "two"))
            )
            assert sorted(outcome is None for outcome in outcomes) == [False, True]
            assert (await store.load(request.conversation.conversation_id)).version == 3


async def test_of_two_requests_for_a_conversation_one_begins_its_run(
    migrated_database_url: str, store: ConversationStore, pool: Pool
) -> None:
    conversation = await store.append(Conversation(conversation_id=make_id()), [build_conversation_started()])
    async with open_store(migrated_database_url, _TOLD) as other:
        outcomes = await asyncio.gather(
            Asked(conversation).begin(store, Leases(pool, "one")),
            Asked(conversation).begin(other, Leases(pool, "two")),
        )
    assert sorted(outcome is None for outcome in outcomes) == [False, True]


async def test_unacknowledged_commit_starts_the_run_once_with_its_lease(
    migrated_database_url: str, pool: Pool
) -> None:
    leases, request = Leases(pool, "one"), Asked()
    async with run_proxy(migrated_database_url) as (proxy, url), open_store(url, _TOLD) as store:
        await store.append(Conversation(conversation_id=make_id()), [build_conversation_started()])
        await proxy.set_mode("eat")
        begun = await request.begin(store, leases)
        assert proxy.eaten == 1
        assert begun is not None
        assert await store.load(begun[0].conversation_id) == begun[0]
    assert begun[1].is_live
    assert await leases.renew() == set()
    assert await _lease_of(pool, request.trace_id) == (1, leases.worker, True)


async def test_the_end_of_a_run_releases_its_lease_with_the_last_events(
    store: ConversationStore, pool: Pool
) -> None:
    leases, other, request, second = Leases(pool, "one"), Leases(pool, "two"), Asked(), Asked()
    begun, others = await request.begin(store, leases), await second.begin(store, other)
    assert begun is not None
    assert others is not None
    release = leases.plan_release(request.trace_id, begun[1])
    assert release is not None
    ended = await store.append(begun[0], [*build_delta("Hi"), *build_answer("Hi")], release=release)
    assert await _lease_of(pool, request.trace_id) is None
    assert await leases.renew() == set(), "a renewal that finds it gone does not take it for lost"
    assert begun[1].is_live
    leases.confirm_release(request.trace_id, begun[1])
    assert leases.plan_release(request.trace_id, begun[1]) is None
    assert await store.append(begun[0], [*build_delta("Hi"), *build_answer("Hi")], release=release) == ended
    theirs = release._replace(trace_id=second.trace_id)
    await store.append(others[0], [*build_delta("Hi"), *build_answer("Hi")], release=theirs)
    assert await _lease_of(pool, second.trace_id) == (1, other.worker, True), "another worker's stays"


async def test_an_end_that_cannot_be_stored_releases_nothing(store: ConversationStore, pool: Pool) -> None:
    leases, request = Leases(pool, "one"), Asked()
    begun = await request.begin(store, leases)
    assert begun is not None
    await store.append(begun[0], build_delta("else"))
    release = leases.plan_release(request.trace_id, begun[1])
    with pytest.raises(VersionConflict):
        await store.append(begun[0], [*build_delta("Hi"), *build_answer("Hi")], release=release)
    assert await _lease_of(pool, request.trace_id) == (1, leases.worker, True)


def subtract_seconds() -> str:
    return datetime.now(UTC).isoformat()


async def test_an_append_that_nobody_waits_for_begins_no_run(
    store: ConversationStore, pool: Pool, migrated_database_url: str
) -> None:
    """It has been put back: its lease would have no holder, and who takes it up would wait for its end."""
    leases, asked_for = Leases(pool, "worker"), Asked()
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as holder:
        conversation = Conversation(conversation_id=make_id())
        await holder.execute("LOCK TABLE conversation_events IN SHARE MODE")
        before = asyncio.create_task(store.append(conversation, [build_conversation_started()]))
        await until_blocked_by(holder)
        given_up = asyncio.create_task(asked_for.begin(store, leases))
        await asyncio.sleep(0)  # it waits after the other
        given_up.cancel()
    await before
    await store.append(
        Conversation(conversation_id=make_id()), [build_conversation_started()]
    )  # after all that waited
    assert await _lease_of(pool, asked_for.trace_id) is None
    assert (await store.load(asked_for.conversation.conversation_id)).version == 0
