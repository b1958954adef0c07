"""Who holds a run: a row on Postgres time, renewed while its worker lives.

Only a lease that is free or has expired can be taken, and only its holder may start an attempt. A worker
that was merely paused is fenced by the conversation's version, not by this.
"""

import msgspec
from psycopg import sql

from contracts.ids import new_id
from conversations.database import NOW, using
from runtime.postgres import Pool

LEASE_SECONDS = 10
RENEW_SECONDS = 3.0


class Held(msgspec.Struct, frozen=True):
    """The lease was taken, at `now` on the server's clock (ISO 8601 UTC, microseconds)."""

    now: str


class Leases:
    """The leases of one worker process. Every call raises StoreUnavailable where Postgres does not answer.

    The process is told from an earlier one of the same name: what that one held has to expire.
    """

    def __init__(self, pool: Pool, worker: str) -> None:
        self._pool = pool
        self._worker = f"{worker}/{new_id()}"
        self._held: set[str] = set()

    @property
    def worker(self) -> str:
        """The worker's name, and an id of this start of its process."""
        return self._worker

    async def acquire(self, trace_id: str) -> Held | None:
        """Take the lease, for ten seconds; None while anybody holds it, this worker too."""
        async with using(self._pool) as conn:
            row = await (await conn.execute(_ACQUIRE, [trace_id, self._worker, LEASE_SECONDS])).fetchone()
        if row is None:
            return None
        self._held.add(trace_id)
        return Held(now=row[0])

    async def renew(self) -> set[str]:
        """Ten more seconds for all that this worker holds; returns the traces that it has lost."""
        asked = frozenset(self._held)
        if not asked:
            return set()
        async with using(self._pool) as conn:
            cursor = await conn.execute(_RENEW, [LEASE_SECONDS, self._worker, list(asked)])
            kept = {trace_id for (trace_id,) in await cursor.fetchall()}
        lost = {
            trace_id for trace_id in asked - kept if trace_id in self._held
        }  # what was released meanwhile is not lost
        self._held -= lost
        return lost

    async def release(self, trace_id: str) -> None:
        """Free the lease if this worker still has it. Should that fail, it is not renewed and expires."""
        self._held.discard(trace_id)
        async with using(self._pool) as conn:
            await conn.execute(_RELEASE, [self._worker, trace_id])

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
 WHERE held.expires_at <= clock_timestamp()
RETURNING {now}
""").format(now=NOW)

_RENEW = """
UPDATE run_leases SET expires_at = clock_timestamp() + make_interval(secs => %s)
 WHERE worker = %s AND trace_id = ANY(%s) RETURNING trace_id
"""

_RELEASE = "DELETE FROM run_leases WHERE worker = %s AND trace_id = %s"

_ALIVE = "SELECT 1 FROM run_leases WHERE trace_id = %s AND expires_at > clock_timestamp()"

_FORGET = "DELETE FROM run_leases WHERE expires_at < clock_timestamp() - interval '1 hour'"
