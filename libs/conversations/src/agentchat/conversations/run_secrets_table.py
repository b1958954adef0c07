"""Hold the sealed secrets of requests (used by `directory.run_secrets`).

`append_events` deletes them in the transaction that appends the end of their run.
"""

from agentchat.runtime.postgres import Pool, acquire_connection

TABLES = """
CREATE TABLE run_secrets (
    trace_id text PRIMARY KEY,
    account_id text NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_secrets TO agentchat_service;
"""


async def forget_secrets_without_run(pool: Pool) -> None:
    """Delete the secrets of requests that became no run, or whose conversation was erased.

    After a quarter of an hour: a request has started its run by then, or never will. Raises
    DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        await conn.execute(_FORGET)


_FORGET = """
DELETE FROM run_secrets AS kept
 WHERE created_at < clock_timestamp() - interval '15 minutes'
   AND NOT EXISTS (SELECT FROM open_run_traces AS run WHERE run.trace_id = kept.trace_id)
"""
