"""The line before a busy conversation: first come, first served, whichever worker each waits at.

A place is leased like a run. One whose worker died is passed over once it has expired, and kept: the
message that comes back at another worker has its old place again.
"""

from contracts.ids import new_id
from conversations.database import using
from conversations.leases import LEASE_SECONDS
from runtime.postgres import Pool


class WaitingLine:
    """The places of one worker process. Every call raises StoreUnavailable where Postgres does not answer."""

    def __init__(self, pool: Pool, worker: str) -> None:
        self._pool = pool
        self._worker = f"{worker}/{new_id()}"
        self._waiting: set[str] = set()

    async def join(self, conversation_id: str, trace_id: str, asked_at: str) -> None:
        """Take the place of a request made at `asked_at` (ISO 8601), or keep the one that it has had.

        Workers take requests up side by side: who was heard of first is not who asked first.
        """
        self._waiting.add(trace_id)
        given = [trace_id, conversation_id, asked_at, self._worker, LEASE_SECONDS]
        async with using(self._pool) as conn:
            await conn.execute(_JOIN, given)

    async def go_before_all(self, conversation_id: str, trace_id: str) -> None:
        """Take the place before the first: nobody who waits, or comes, begins a run until it is left."""
        self._waiting.add(trace_id)
        async with using(self._pool) as conn:
            await conn.execute(_GO_BEFORE, [trace_id, conversation_id, self._worker, LEASE_SECONDS])

    async def is_first(self, conversation_id: str, trace_id: str) -> bool:
        """Whether nobody waits before this trace; for one without a place, whether nobody waits at all."""
        async with using(self._pool) as conn:
            cursor = await conn.execute(_AHEAD, [trace_id, conversation_id, trace_id])
            return await cursor.fetchone() is None

    async def leave(self, trace_id: str) -> None:
        """Give up the place, because it is this trace's turn or it waits no more."""
        self._waiting.discard(trace_id)
        async with using(self._pool) as conn:
            await conn.execute(_LEAVE, [trace_id])

    async def renew(self) -> None:
        """Ten more seconds for all places of this worker. Call it as often as `Leases.renew`."""
        if not self._waiting:
            return
        async with using(self._pool) as conn:
            await conn.execute(_RENEW, [LEASE_SECONDS, self._worker, list(self._waiting)])


async def forget_expired_places(pool: Pool) -> None:
    """Delete places that dead workers have left, an hour after they expired."""
    async with using(pool) as conn:
        await conn.execute(_FORGET)


_JOIN = """
INSERT INTO waiting_line (trace_id, conversation_id, place, worker, expires_at) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, extract(epoch FROM %s::timestamptz) * 1000000, %s,
        clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (trace_id) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
"""

_GO_BEFORE = """
INSERT INTO waiting_line (trace_id, conversation_id, place, worker, expires_at) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, 0, %s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (trace_id) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
"""

_AHEAD = """
SELECT 1 FROM waiting_line other LEFT JOIN waiting_line mine ON mine.trace_id = %s
 WHERE other.conversation_id = %s AND other.trace_id <> %s AND other.expires_at > clock_timestamp()
   AND (mine.trace_id IS NULL OR (other.place, other.trace_id) < (mine.place, mine.trace_id))
 LIMIT 1
"""

_LEAVE = "DELETE FROM waiting_line WHERE trace_id = %s"

_RENEW = """
UPDATE waiting_line SET expires_at = clock_timestamp() + make_interval(secs => %s)
 WHERE worker = %s AND trace_id = ANY(%s)
"""

_FORGET = "DELETE FROM waiting_line WHERE expires_at < clock_timestamp() - interval '1 hour'"
