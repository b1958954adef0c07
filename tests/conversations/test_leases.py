"""Who may work on a run, decided on Postgres' clock."""

import asyncio
from itertools import chain, repeat

import pytest

from agentchat.contracts.timings import HOLD_SECONDS, LEASE_SECONDS
from agentchat.conversations.leases.leases import Lease, Leases, LeaseTimings, forget_expired_leases
from agentchat.conversations.leases.waiting_line import WaitingLine, delete_expired_waiters
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acquire_connection, open_pool
from tests.blocking import until_blocked_by
from tests.conversations.given import ACCOUNT, trace
from tests.conversations.outages import make_steady


@pytest.fixture(autouse=True)
async def no_leases(pool: Pool) -> None:
    async with acquire_connection(pool) as conn:
        await conn.execute("DELETE FROM run_leases")
        await conn.execute("DELETE FROM waiting_line")
        await make_steady(conn)


async def age_lease(pool: Pool, table: str, seconds: int) -> None:
    """As if that much time had passed since the rows were last renewed."""
    async with acquire_connection(pool) as conn:
        change = f"UPDATE {table} SET expires_at = expires_at - interval '{seconds} seconds'"
        await conn.execute(change.encode())


async def test_a_lease_of_which_a_stopped_process_hears_late_is_not_kept(pool: Pool) -> None:
    times = chain((0.0,), repeat(5.0))
    late = Leases(pool, "one", clock=lambda: next(times))
    with pytest.raises(DatabaseUnavailable):
        await late.acquire(trace())
    assert not await late.has_live_lease(trace())
    assert await late.renew() == set()


async def test_a_held_lease_cannot_be_taken_even_by_its_holder(pool: Pool) -> None:
    one, two = Leases(pool, "one"), Leases(pool, "two")
    assert await one.acquire(trace())
    assert await two.acquire(trace()) is None
    assert await one.acquire(trace()) is None
    assert await two.acquire(trace("other"))


async def test_an_expired_lease_is_taken_by_another_and_lost_by_its_holder(pool: Pool) -> None:
    one, two = Leases(pool, "one"), Leases(pool, "two")
    await one.acquire(trace())
    await age_lease(pool, "run_leases", LEASE_SECONDS)
    assert not await one.has_live_lease(trace())
    assert await two.acquire(trace())
    assert await one.renew() == {trace()}
    assert await one.renew() == set()
    assert await two.renew() == set()
    assert await two.has_live_lease(trace())


async def test_a_lease_that_expired_and_was_not_taken_can_still_be_renewed(pool: Pool) -> None:
    one = Leases(pool, "one")
    await one.acquire(trace())
    await age_lease(pool, "run_leases", LEASE_SECONDS)
    assert await one.renew() == set()
    assert await Leases(pool, "two").acquire(trace()) is None


async def test_renewing_extends_all_leases_that_are_held(pool: Pool) -> None:
    one = Leases(pool, "one")
    for word in ("a", "b"):
        await one.acquire(trace(word))
    await age_lease(pool, "run_leases", LEASE_SECONDS - 1)
    await one.renew()
    await age_lease(pool, "run_leases", LEASE_SECONDS - 1)
    assert [await one.has_live_lease(trace(word)) for word in ("a", "b", "c")] == [True, True, False]


async def test_a_renewal_does_not_wait_for_new_leases(pool: Pool, migrated_database_url: str) -> None:
    """As many requests as a worker has slots may ask for their leases at once; that is no outage either."""
    async with open_pool(migrated_database_url, max_size=1) as full:
        one = Leases(full, "one", renewals=pool)
        await one.acquire(trace())
        async with acquire_connection(full, seconds=30):
            waiting = asyncio.create_task(one.acquire(trace("b")))
            await age_lease(pool, "run_leases", LEASE_SECONDS - 1)
            await one.renew()
            await age_lease(pool, "run_leases", LEASE_SECONDS - 1)
            assert await Leases(pool, "onlooker").has_live_lease(trace())
            with pytest.raises(DatabaseUnavailable):
                await waiting
            assert one.readiness.is_ready


async def test_a_released_lease_is_free_at_once(pool: Pool) -> None:
    one, two = Leases(pool, "one"), Leases(pool, "two")
    lease = await one.acquire(trace())
    assert lease is not None
    await two.release(trace(), lease)
    assert await two.acquire(trace()) is None
    await one.release(trace(), lease)
    assert not await one.has_live_lease(trace())
    assert await two.acquire(trace())
    assert await one.renew() == set()


async def test_release_of_an_earlier_lease_keeps_the_later_one(pool: Pool) -> None:
    one = Leases(pool, "one")
    before = await one.acquire(trace())
    await age_lease(pool, "run_leases", LEASE_SECONDS)
    again = await one.acquire(trace())
    assert before is not None
    assert again is not None
    await one.release(trace(), before)
    assert await Leases(pool, "two").acquire(trace()) is None
    assert await one.renew() == set()
    assert again.is_live


async def test_a_restarted_worker_is_not_taken_for_the_one_before(pool: Pool) -> None:
    before, after = Leases(pool, "one"), Leases(pool, "one")
    lease = await before.acquire(trace())
    assert lease is not None
    assert await after.acquire(trace()) is None
    await after.release(trace(), lease)
    assert await after.has_live_lease(trace())


async def test_leases_of_dead_workers_are_forgotten_after_an_hour(pool: Pool) -> None:
    await Leases(pool, "one").acquire(trace())
    await age_lease(pool, "run_leases", 3600)
    await forget_expired_leases(pool)
    assert await _count(pool, "run_leases") == 1
    await age_lease(pool, "run_leases", LEASE_SECONDS)
    await forget_expired_leases(pool)
    assert await _count(pool, "run_leases") == 0


class Clock:
    """A worker's own clock."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_lease_counts_from_before_its_renewal_was_sent(pool: Pool) -> None:
    clock = Clock()
    leases = Leases(pool, "one", clock=clock)
    lease = await leases.acquire(trace())
    assert lease is not None
    clock.now = 5.0
    async with acquire_connection(pool) as other, other.transaction():
        await other.execute("SELECT 1 FROM run_leases FOR UPDATE")
        renewing = asyncio.create_task(leases.renew())
        await until_blocked_by(other)
        clock.now = 7.0
    assert await renewing == set()
    live = []
    for clock.now in (5.0 + HOLD_SECONDS - 0.001, 5.0 + HOLD_SECONDS):
        live.append(lease.is_live)
    assert live == [True, False]


async def test_a_lost_lease_is_not_live_whatever_the_clock_says(pool: Pool) -> None:
    one = Leases(pool, "one", clock=Clock())
    lease = await one.acquire(trace())
    assert lease is not None
    await age_lease(pool, "run_leases", LEASE_SECONDS)
    await Leases(pool, "two").acquire(trace())
    assert await one.renew() == {trace()}
    assert not lease.is_live
    assert not await lease.wait_until_live()


async def test_late_renewal_ends_the_wait_and_a_missing_one_gives_up() -> None:
    clock = Clock()
    lease = Lease("", 0.0, clock)
    clock.now = HOLD_SECONDS
    waiting = asyncio.create_task(lease.wait_until_live())
    await asyncio.sleep(0)
    assert not waiting.done()
    lease.extend(clock.now)
    assert await waiting
    clock.now += HOLD_SECONDS + LeaseTimings().give_up_seconds
    assert lease.is_given_up
    assert not await lease.wait_until_live()


async def test_an_expired_lease_is_not_renewed_once_it_is_released(pool: Pool) -> None:
    clock = Clock()
    one = Leases(pool, "one", clock=clock)
    lease = await one.acquire(trace())
    assert lease is not None
    clock.now = HOLD_SECONDS
    await one.release(trace(), lease)
    assert await one.renew() == set()
    await age_lease(pool, "run_leases", LEASE_SECONDS)
    assert await Leases(pool, "two").acquire(trace())


_FIRST, _SECOND = "2026-11-21T09:30:00.000001Z", "2026-11-21T09:30:00.000002Z"


async def test_waiters_are_served_in_order_of_arrival(pool: Pool) -> None:
    line, elsewhere = WaitingLine(pool, "one"), WaitingLine(pool, "two")
    await elsewhere.join("c", trace("b"), _SECOND, ACCOUNT)
    await line.join("c", trace("a"), _FIRST, ACCOUNT)  # heard of later, asked before
    await line.join("c", trace("a"), _SECOND, ACCOUNT)
    assert await line.is_first("c", trace("a"))
    assert not await elsewhere.is_first("c", trace("b"))
    await line.leave(trace("a"))
    assert await elsewhere.is_first("c", trace("b"))


async def test_one_who_has_no_place_comes_after_all_who_wait(pool: Pool) -> None:
    line = WaitingLine(pool, "one")
    assert await line.is_first("c", trace("z"))
    await line.join("c", trace("a"), _FIRST, ACCOUNT)
    assert not await line.is_first("c", trace("z"))
    assert await line.is_first("other", trace("z"))


async def test_a_dead_workers_place_is_passed_over_and_kept(pool: Pool) -> None:
    dead, line = WaitingLine(pool, "one"), WaitingLine(pool, "two")
    await dead.join("c", trace("a"), _FIRST, ACCOUNT)
    await line.join("c", trace("b"), _SECOND, ACCOUNT)
    await age_lease(pool, "waiting_line", LEASE_SECONDS)
    await line.renew()
    assert await line.is_first("c", trace("b"))
    await line.join("c", trace("a"), _FIRST, ACCOUNT)  # its message has come to another worker
    assert not await line.is_first("c", trace("b"))
    assert await line.is_first("c", trace("a"))


async def test_places_of_dead_workers_are_forgotten_after_an_hour(pool: Pool) -> None:
    await WaitingLine(pool, "one").join("c", trace(), _FIRST, ACCOUNT)
    await age_lease(pool, "waiting_line", 3600 + LEASE_SECONDS)
    await delete_expired_waiters(pool)
    assert await _count(pool, "waiting_line") == 0


async def _count(pool: Pool, table: str) -> int:
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(f"SELECT count(*) FROM {table}".encode())).fetchone()
    assert row is not None
    return int(row[0])
