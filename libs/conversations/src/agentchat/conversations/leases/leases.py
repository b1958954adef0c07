"""Hold runs by leases: rows on Postgres' time, renewed while their worker lives.

A lease can be taken only if it is free or has expired, and only its holder may start an attempt; one that
expired in an outage of Postgres stays its holder's for a while (`availability`). A worker's appends are
fenced by the conversation's version; its live frames by its own clock: `Lease.is_live`.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from psycopg import sql

from agentchat.contracts.ids import make_id
from agentchat.contracts.timings import HOLD_SECONDS, LEASE_SECONDS, RENEWAL_SECONDS
from agentchat.conversations.event_store.append_statement import LeaseChange
from agentchat.conversations.leases.database_availability import (
    build_steady_condition,
    keep_recording_availability,
)
from agentchat.conversations.postgres_sessions import NOW
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acquire_connection
from agentchat.runtime.readiness_flag import ReadinessFlag
from agentchat.runtime.retry_loops import wait_for_event

_LATE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class LeaseTimings:
    """The times of leases. For `lease_seconds` nobody else can take a lease.

    For `hold_seconds` its holder relies on that. For `give_up_seconds` after that, a worker that cannot reach
    Postgres waits silently for a renewal; a renewal takes `renewal_seconds` at most.
    """

    lease_seconds: float = LEASE_SECONDS
    hold_seconds: float = HOLD_SECONDS
    give_up_seconds: float = 10.0
    renewal_seconds: float = RENEWAL_SECONDS


def read_clock() -> float:
    """Return seconds of a clock that nobody sets and that runs during a suspension."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """A lease that this worker took, at `now` on the server's clock (ISO 8601 UTC, microseconds)."""

    def __init__(
        self, now: str, sent_at: float, clock: Callable[[], float], timings: LeaseTimings = LeaseTimings()
    ) -> None:
        self.now = now
        self._clock = clock
        self._timings = timings
        self._until = sent_at + timings.hold_seconds
        self._lost = False
        self._news = asyncio.Event()
        self.is_releasing = False
        """True while an append that releases it is under way, or may have succeeded without an answer."""

    @property
    def is_live(self) -> bool:
        """Return True if nobody else can have the run, by this worker's clock.

        Check it before every frame.
        """
        return not self._lost and self._clock() < self._until

    @property
    def is_given_up(self) -> bool:
        """Return True if it has not been live for longer than its holder waits."""
        return self._clock() >= self._until + self._timings.give_up_seconds

    async def wait_until_live(self) -> bool:
        """Wait until it is live, perhaps by a late renewal.

        Return False if it is lost or given up.
        """
        while not self.is_live and not self._lost and not self.is_given_up:
            self._news.clear()
            await wait_for_event(self._news, self._until + self._timings.give_up_seconds - self._clock())
        return self.is_live

    def extend(self, sent_at: float) -> None:
        """Extend it after a renewal that was sent at `sent_at`."""
        self._until = sent_at + self._timings.hold_seconds
        self._news.set()

    def mark_lost(self) -> None:
        """Mark it as lost: another worker has the run."""
        self._lost = True
        self._news.set()


class Leases:
    """The leases of one worker process.

    Calls raise DatabaseUnavailable if Postgres does not answer. `renewals` must be a pool of its own: neither
    other work nor hundreds of new requests may delay a renewal. A random suffix of the worker's name
    distinguishes restarts with the same name: leases of the earlier process have to expire.
    """

    def __init__(
        self,
        pool: Pool,
        worker: str,
        *,
        renewals: Pool | None = None,
        clock: Callable[[], float] = read_clock,
        timings: LeaseTimings = LeaseTimings(),
    ) -> None:
        self._pool = pool
        self._timings = timings
        self._renewals = renewals or pool
        self._worker = f"{worker}/{make_id()}"
        self._clock = clock
        self._held: dict[str, Lease] = {}
        self.readiness = ReadinessFlag()

    @property
    def worker(self) -> str:
        """The worker's name with an id of this start of its process."""
        return self._worker

    async def acquire(self, trace_id: str) -> Lease | None:
        """Take the lease for `lease_seconds`; None while anybody holds it, this worker included.

        A late answer, for example to a suspended process, raises DatabaseUnavailable: a clock that starts
        from the time in it would be behind.
        """
        async with acquire_connection(self._pool) as conn:
            sent_at = self._clock()  # after the wait for a connection
            taken = await conn.execute(_ACQUIRE, [trace_id, self._worker, self._timings.lease_seconds])
            row = await taken.fetchone()
        if row is None:
            return None
        lease = self._held[trace_id] = Lease(row[0], sent_at, self._clock, self._timings)
        if self._clock() - sent_at > _LATE_SECONDS:
            await self.release(trace_id, lease)
            raise DatabaseUnavailable("Postgres' answer about a lease came too late")
        return lease

    def plan_acquisition(self, trace_id: str) -> LeaseChange:
        """Return the lease change for an append that takes the lease.

        Then call `confirm_acquisition`.
        """
        return LeaseChange(trace_id, self._worker, self._timings.lease_seconds, self._clock())

    def confirm_acquisition(self, change: LeaseChange, now: str) -> Lease:
        """Record that the append took the lease, at `now` on the server's clock."""
        lease = Lease(now, change.sent_at, self._clock, self._timings)
        self._held[change.trace_id] = lease
        return lease

    def plan_release(self, trace_id: str, lease: Lease) -> LeaseChange | None:
        """Return the lease change for an append that releases the lease.

        Returns None if `release` has to do it, or nobody. Call `confirm_release` afterwards. Until then the
        lease is renewed, and not taken for lost if there is nothing to renew.
        """
        if not self.is_holding(trace_id, lease) or not lease.is_live:
            return None
        lease.is_releasing = True
        return LeaseChange(trace_id, self._worker)

    def confirm_release(self, trace_id: str, lease: Lease) -> None:
        """Record that the append released the lease."""
        if self.is_holding(trace_id, lease):
            del self._held[trace_id]

    def is_holding(self, trace_id: str, lease: Lease) -> bool:
        """Return True if it is renewed here: it was not released, lost, or taken again."""
        return self._held.get(trace_id) is lease

    async def renew(self) -> set[str]:
        """Extend all leases of this worker by `lease_seconds`.

        Return the traces whose lease is lost. An expired lease that nobody has taken is renewed.
        """
        asked = dict(self._held)
        if not asked:
            return set()
        sent_at = self._clock()
        async with acquire_connection(self._renewals, seconds=self._timings.renewal_seconds) as conn:
            cursor = await conn.execute(_RENEW, [self._timings.lease_seconds, self._worker, list(asked)])
            kept = {trace_id for (trace_id,) in await cursor.fetchall()}
        lost = set()
        for trace_id, lease in asked.items():
            if trace_id in kept:
                lease.extend(sent_at)
            elif (
                self.is_holding(trace_id, lease) and not lease.is_releasing
            ):  # otherwise it was released meanwhile
                lease.mark_lost()
                del self._held[trace_id]
                lost.add(trace_id)
        return lost

    async def release(self, trace_id: str, lease: Lease) -> None:
        """Free a lease if this worker still has it. If that fails, it is not renewed and expires.

        A lease that may have expired is left to expire. A later lease of the same run, which this worker has
        taken since, stays: another delivery of the request works under it.
        """
        if not self.is_holding(trace_id, lease):
            return
        del self._held[trace_id]
        if not lease.is_live:
            return
        async with acquire_connection(self._pool) as conn:
            await conn.execute(_RELEASE, [self._worker, trace_id])

    async def keep_recording_availability(self) -> None:
        """Record Postgres' availability, and set `readiness`, until cancelled."""
        await keep_recording_availability(self._renewals, self.readiness)

    async def has_live_lease(self, trace_id: str) -> bool:
        """Return True if any worker holds the lease."""
        async with acquire_connection(self._pool) as conn:
            cursor = await conn.execute(_ALIVE, [trace_id])
            return await cursor.fetchone() is not None


async def forget_expired_leases(pool: Pool) -> None:
    """Delete rows that dead workers have left, an hour after they expired."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_FORGET)


_ACQUIRE = sql.SQL("""
INSERT INTO run_leases AS held (trace_id, attempt, worker, expires_at)
VALUES (%s, 1, %s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (trace_id) DO UPDATE
   SET attempt = held.attempt + 1, worker = excluded.worker, expires_at = excluded.expires_at
 WHERE held.expires_at <= clock_timestamp() AND {steady}
RETURNING {now}
""").format(now=NOW, steady=build_steady_condition(LEASE_SECONDS))

_RENEW = """
UPDATE run_leases SET expires_at = clock_timestamp() + make_interval(secs => %s)
 WHERE worker = %s AND trace_id = ANY(%s) RETURNING trace_id
"""

_RELEASE = "DELETE FROM run_leases WHERE worker = %s AND trace_id = %s"

_ALIVE = "SELECT 1 FROM run_leases WHERE trace_id = %s AND expires_at > clock_timestamp()"

_FORGET = "DELETE FROM run_leases WHERE expires_at < clock_timestamp() - interval '1 hour'"
