"""Who holds a run: a row on Postgres time, renewed while its worker lives.

Only a lease that is free or has expired can be taken, and only its holder may start an attempt; one that has
expired in an outage of Postgres is still its holder's for a while (`availability`). What a worker appends is
fenced by the conversation's version; what it says live, by its own clock: `Lease.is_live`.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

from psycopg import sql

from contracts.ids import new_id
from contracts.timings import HOLD_SECONDS, LEASE_SECONDS, RENEWAL_SECONDS
from conversations.availability import keep_noting, steady_for
from conversations.database import NOW, using
from runtime.postgres import Pool
from runtime.readiness import Readiness

GIVE_UP_SECONDS = 10.0
"""For so long after that a worker that cannot reach Postgres waits, silent, for its lease to be renewed."""


def elapsed() -> float:
    """Seconds on a clock that nobody sets and that goes on while the process, or the machine, is stopped."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """A lease that this worker took, at `now` on the server's clock (ISO 8601 UTC, microseconds)."""

    def __init__(self, now: str, sent_at: float, clock: Callable[[], float]) -> None:
        self.now = now
        self._clock = clock
        self._until = sent_at + HOLD_SECONDS
        self._lost = False
        self._news = asyncio.Event()

    @property
    def is_live(self) -> bool:
        """Whether nobody else can have the run, by this worker's clock: to be asked before every frame."""
        return not self._lost and self._clock() < self._until

    @property
    def is_given_up(self) -> bool:
        """Whether it has not been live for longer than one waits for that."""
        return self._clock() >= self._until + GIVE_UP_SECONDS

    async def wait_until_live(self) -> bool:
        """Return when it is live, perhaps by a late renewal; False when it is lost, or given up."""
        while not self.is_live and not self._lost and not self.is_given_up:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until + GIVE_UP_SECONDS - self._clock()):
                    await self._news.wait()
        return self.is_live

    def renewed(self, sent_at: float) -> None:
        """A renewal that was sent then has succeeded."""
        self._until = sent_at + HOLD_SECONDS
        self._news.set()

    def lose(self) -> None:
        """Another worker has the run."""
        self._lost = True
        self._news.set()


class Leases:
    """The leases of one worker process. Every call raises StoreUnavailable where Postgres does not answer.

    `renewals` is to be a pool of its own: neither other work nor hundreds of requests that are taken up at
    once must delay a renewal. The process is told from an earlier one of the same name: what that one held
    has to expire.
    """

    def __init__(
        self,
        pool: Pool,
        worker: str,
        *,
        renewals: Pool | None = None,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._pool = pool
        self._renewals = renewals or pool
        self._worker = f"{worker}/{new_id()}"
        self._clock = clock
        self._held: dict[str, Lease] = {}
        self.readiness = Readiness()

    @property
    def worker(self) -> str:
        """The worker's name, and an id of this start of its process."""
        return self._worker

    async def acquire(self, trace_id: str) -> Lease | None:
        """Take the lease, for ten seconds; None while anybody holds it, this worker too."""
        sent_at = self._clock()
        async with using(self._pool) as conn:
            row = await (await conn.execute(_ACQUIRE, [trace_id, self._worker, LEASE_SECONDS])).fetchone()
        if row is None:
            return None
        lease = self._held[trace_id] = Lease(row[0], sent_at, self._clock)
        return lease

    async def renew(self) -> set[str]:
        """Ten more seconds for all that this worker holds; returns the traces that it has lost.

        A lease that has expired and that nobody has taken is its own again.
        """
        asked = dict(self._held)
        if not asked:
            return set()
        sent_at = self._clock()
        async with using(self._renewals, seconds=RENEWAL_SECONDS) as conn:
            cursor = await conn.execute(_RENEW, [LEASE_SECONDS, self._worker, list(asked)])
            kept = {trace_id for (trace_id,) in await cursor.fetchall()}
        lost = set()
        for trace_id, lease in asked.items():
            if trace_id in kept:
                lease.renewed(sent_at)
            elif self._held.get(trace_id) is lease:  # else it was released meanwhile
                lease.lose()
                del self._held[trace_id]
                lost.add(trace_id)
        return lost

    async def release(self, trace_id: str, lease: Lease) -> None:
        """Free a lease if this worker still has it. Should that fail, it is not renewed and expires.

        One that may have expired by now is left to do so. A later one of the same run, which this worker has
        taken since, stays: another delivery of the request is being worked on under it.
        """
        if self._held.get(trace_id) is not lease:
            return
        del self._held[trace_id]
        if not lease.is_live:
            return
        async with using(self._pool) as conn:
            await conn.execute(_RELEASE, [self._worker, trace_id])

    async def keep_noting(self) -> None:
        """See `availability.keep_noting`. Also keeps `readiness`: whether Postgres answers this process."""
        await keep_noting(self._renewals, self.readiness)

    async def alive(self, trace_id: str) -> bool:
        """Whether anybody holds the lease."""
        async with using(self._pool) as conn:
            cursor = await conn.execute(_ALIVE, [trace_id])
            return await cursor.fetchone() is not None


async def forget_expired_leases(pool: Pool) -> None:
    """Delete rows that dead workers have left, an hour after they expired."""
    async with using(pool) as conn:
        await conn.execute(_FORGET)


_ACQUIRE = sql.SQL("""
INSERT INTO run_leases AS held (trace_id, attempt, worker, expires_at)
VALUES (%s, 1, %s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (trace_id) DO UPDATE
   SET attempt = held.attempt + 1, worker = excluded.worker, expires_at = excluded.expires_at
 WHERE held.expires_at <= clock_timestamp() AND {steady}
RETURNING {now}
""").format(now=NOW, steady=steady_for(LEASE_SECONDS))

_RENEW = """
UPDATE run_leases SET expires_at = clock_timestamp() + make_interval(secs => %s)
 WHERE worker = %s AND trace_id = ANY(%s) RETURNING trace_id
"""

_RELEASE = "DELETE FROM run_leases WHERE worker = %s AND trace_id = %s"

_ALIVE = "SELECT 1 FROM run_leases WHERE trace_id = %s AND expires_at > clock_timestamp()"

_FORGET = "DELETE FROM run_leases WHERE expires_at < clock_timestamp() - interval '1 hour'"
