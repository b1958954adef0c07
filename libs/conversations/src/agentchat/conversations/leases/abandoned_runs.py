"""Find runs that no worker holds, to request them again.

Started, not ended, without a live lease. A run that waits for approvals is skipped until they are decided or
expire. Called by `projector.run_sweeper`.
"""

import msgspec
from psycopg import sql

from agentchat.contracts.timings import GRACE_SECONDS, LEASE_SECONDS
from agentchat.conversations.leases.database_availability import build_steady_condition
from agentchat.runtime.postgres import Pool, acquire_connection

_MAX_PAUSE_SECONDS = 60

TABLES = """
CREATE TABLE run_requests (
    trace_id text PRIMARY KEY,
    attempt integer NOT NULL,
    next_at timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_requests TO agentchat_service;
"""


class AbandonedRun(msgspec.Struct, frozen=True):
    """A run to request again, and the number of that publication (the first was 1)."""

    trace_id: str
    conversation_id: str
    attempt: int


async def claim_abandoned(pool: Pool, *, limit: int = 100) -> list[AbandonedRun]:
    """Claim the runs that are due, the oldest first.

    Each is due again after a while, longer every time. If several processes claim a run at the same time, one
    gets it. No run is due right after an outage of Postgres: leases have expired whose holders are about to
    renew them. A run is claimed before it is published: if the publication fails, it only comes
    later. Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        parameters = [GRACE_SECONDS, limit, GRACE_SECONDS, GRACE_SECONDS, _MAX_PAUSE_SECONDS]
        cursor = await conn.execute(_CLAIM, parameters)
        return [AbandonedRun(*row) for row in await cursor.fetchall()]


async def forget_old_requests(pool: Pool) -> None:
    """Delete the counts of runs that ended an hour ago.

    Earlier, a late one might repeat a message id.
    """
    async with acquire_connection(pool) as conn:
        await conn.execute(_FORGET)


_CLAIM = sql.SQL("""
WITH due AS (
    SELECT run.trace_id, run.conversation_id, run.requested_at
      FROM runs run
      LEFT JOIN run_leases lease ON lease.trace_id = run.trace_id AND lease.expires_at > clock_timestamp()
      LEFT JOIN run_requests request ON request.trace_id = run.trace_id
     WHERE run.ended_at IS NULL
       AND run.requested_at::timestamptz < clock_timestamp() - make_interval(secs => %s)
       AND lease.trace_id IS NULL
       AND (request.next_at IS NULL OR request.next_at <= clock_timestamp())
       AND NOT EXISTS (
           SELECT FROM approvals asked
            WHERE asked.trace_id = run.trace_id AND asked.status = 'pending'
              AND asked.expires_at::timestamptz > clock_timestamp())
       AND {steady}
     ORDER BY run.requested_at LIMIT %s
), claimed AS (
    INSERT INTO run_requests AS earlier (trace_id, attempt, next_at)
    SELECT trace_id, 2, clock_timestamp() + make_interval(secs => %s) FROM due
    ON CONFLICT (trace_id) DO UPDATE
       SET attempt = earlier.attempt + 1,
           next_at = clock_timestamp() + make_interval(secs => least(%s * earlier.attempt, %s))
     WHERE earlier.next_at <= clock_timestamp()
    RETURNING trace_id, attempt
)
SELECT due.trace_id, due.conversation_id, claimed.attempt
  FROM due JOIN claimed USING (trace_id) ORDER BY due.requested_at
""").format(steady=build_steady_condition(LEASE_SECONDS))

_FORGET = """
DELETE FROM run_requests request
 WHERE next_at < clock_timestamp() - interval '1 hour'
   AND NOT EXISTS (SELECT FROM runs run WHERE run.trace_id = request.trace_id AND ended_at IS NULL)
"""
