"""Leases that expired while Postgres was away: their holders have the time to renew them."""

import asyncio

import pytest

from agentchat.contracts.timings import BREAK_SECONDS, LEASE_SECONDS
from agentchat.conversations.leases.database_availability import record_availability
from agentchat.conversations.leases.leases import Leases
from agentchat.runtime.postgres import Pool, acquire_connection, open_pool
from tests.conversations.given import trace
from tests.conversations.outages import make_available_for, make_steady, simulate_outage

_OUTAGE = LEASE_SECONDS + 5


@pytest.fixture(autouse=True)
async def held_leases(pool: Pool) -> Leases:
    """A run of a worker that lives, held for long."""
    leases = Leases(pool, "holder")
    async with acquire_connection(pool) as conn:
        await conn.execute("DELETE FROM run_leases")
        await make_steady(conn)
    await leases.acquire(trace())
    return leases


async def test_a_lease_that_expired_in_an_outage_is_its_holders_to_renew(
    pool: Pool, held_leases: Leases
) -> None:
    other = Leases(pool, "other")
    await simulate_outage(pool, _OUTAGE)
    assert await other.acquire(trace()) is None  # before anybody has noted that it is back
    await record_availability(pool)
    assert await other.acquire(trace()) is None
    assert await held_leases.renew() == set()
    await make_available_for(pool, _OUTAGE)
    assert await other.acquire(trace()) is None


async def test_lease_expired_in_an_outage_is_respected_for_its_length(pool: Pool) -> None:
    await simulate_outage(pool, _OUTAGE)
    await record_availability(pool)
    await make_available_for(pool, LEASE_SECONDS - 1)
    assert await Leases(pool, "other").acquire(trace()) is None
    await make_available_for(pool, 1)
    assert await Leases(pool, "other").acquire(trace())


async def test_a_run_without_a_lease_is_taken_right_after_an_outage(pool: Pool) -> None:
    await simulate_outage(pool, _OUTAGE)
    assert await Leases(pool, "other").acquire(trace("b"))


async def test_a_pause_that_outlasts_no_lease_is_no_break(pool: Pool) -> None:
    await simulate_outage(pool, BREAK_SECONDS - 1)
    await record_availability(pool)
    await _expire(pool)
    assert await Leases(pool, "other").acquire(trace())


async def test_a_clock_set_back_is_a_break(pool: Pool) -> None:
    await simulate_outage(pool, -60)
    await record_availability(pool)
    await _expire(pool)
    assert await Leases(pool, "other").acquire(trace()) is None


async def test_read_only_postgres_is_unready_and_ends_no_process(
    pool: Pool, migrated_database_url: str
) -> None:
    """As one does after a fail-over, until it is promoted."""
    leases = Leases(pool, "holder")
    async with open_pool(migrated_database_url, role=None) as owners:
        async with acquire_connection(owners, seconds=10) as conn:
            await conn.execute("ALTER TABLE availability ADD CONSTRAINT refusing CHECK (false) NOT VALID")
        noting = asyncio.create_task(leases.keep_recording_availability())
        unready = asyncio.create_task(leases.readiness.wait_unready())
        await asyncio.wait((noting, unready), timeout=40, return_when=asyncio.FIRST_COMPLETED)
        async with acquire_connection(owners, seconds=10) as conn:
            await conn.execute("ALTER TABLE availability DROP CONSTRAINT refusing")
        assert not noting.done()
        async with asyncio.timeout(40):
            await leases.readiness.wait_ready()
        noting.cancel()


async def _expire(pool: Pool, seconds: float = LEASE_SECONDS) -> None:
    """Let the leases end so much sooner, as if they had not been renewed."""
    async with acquire_connection(pool) as conn:
        change = "UPDATE run_leases SET expires_at = expires_at - make_interval(secs => %s)"
        await conn.execute(change, [seconds])
