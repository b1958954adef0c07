"""Record since when Postgres has answered without a break.

While Postgres is away no lease can be renewed, and all expire though their workers live. So an expired lease
is respected until Postgres has been available for as long as a lease lasts, which gives its holder time to
renew it. All of this is by Postgres' clock, whose jumps count as breaks too. Orchestrators and the projector
touch the row.
"""

import asyncio

import psycopg
from psycopg import sql

from agentchat.contracts.timings import BREAK_SECONDS, NOTE_SECONDS
from agentchat.runtime.logs import get_first_line, get_logger
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acquire_connection
from agentchat.runtime.readiness_flag import ReadinessFlag

_AGAIN_SECONDS = 0.5  # during an outage, to notice its end soon


async def record_availability(pool: Pool) -> None:
    """Record that Postgres answers, or raise DatabaseUnavailable. Call it every NOTE_SECONDS."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_NOTE, {"break": BREAK_SECONDS, "fresh": NOTE_SECONDS / 2})


async def keep_recording_availability(pool: Pool, readiness: ReadinessFlag | None = None) -> None:
    """Call `record_availability` until cancelled.

    `readiness` is set to the outcome of the last call.
    """
    readiness = readiness or ReadinessFlag()
    logger = get_logger("agentchat.conversations.leases.availability")
    while True:
        try:
            await record_availability(pool)
            readiness.set(True)
        except (DatabaseUnavailable, psycopg.Error) as error:  # for example of a server that is read-only
            logger.warning("store_unavailable", reason=get_first_line(error))
            readiness.set(False)
        await asyncio.sleep(NOTE_SECONDS if readiness.is_ready else _AGAIN_SECONDS)


def build_steady_condition(seconds: float) -> sql.Composed:
    """Return SQL that is true if Postgres was available without a break for `seconds`.

    `append_events` has the same condition.
    """
    return _STEADY.format(sql.Literal(seconds), sql.Literal(BREAK_SECONDS))


_STEADY = sql.SQL("""EXISTS (
    SELECT FROM availability
     WHERE since <= clock_timestamp() - make_interval(secs => {})
       AND abs(extract(epoch FROM clock_timestamp() - noted_at)) <= {})""")


# A call right after another changes nothing, so that not every worker writes the one row.
_NOTE = """
INSERT INTO availability AS known (since, noted_at) VALUES (clock_timestamp(), clock_timestamp())
ON CONFLICT (only_row) DO UPDATE
   SET since = CASE WHEN abs(extract(epoch FROM clock_timestamp() - known.noted_at)) > %(break)s
                    THEN clock_timestamp() ELSE known.since END,
       noted_at = clock_timestamp()
 WHERE abs(extract(epoch FROM clock_timestamp() - known.noted_at)) > %(fresh)s
"""
