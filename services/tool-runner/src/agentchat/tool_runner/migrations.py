"""Create the journal's table, in steps."""

from agentchat.runtime.migrations import apply, open_migration

COMPONENT = "journal"

_EXECUTIONS = """
CREATE TABLE tool_executions (
    trace_id text NOT NULL,
    call_id text NOT NULL,
    runner text NOT NULL,
    ends_at timestamptz NOT NULL,
    PRIMARY KEY (trace_id, call_id)
);
CREATE INDEX tool_executions_by_end ON tool_executions (ends_at);
GRANT SELECT, INSERT, DELETE ON tool_executions TO agentchat_service;
"""

STEPS = (_EXECUTIONS,)


async def migrate(database_url: str) -> None:
    """Create or update the table. Idempotent; concurrent calls take turns.

    Raises:
        agentchat.runtime.migrations.MigrationError, psycopg.Error
    """
    async with open_migration(database_url) as conn:
        await apply(conn, COMPONENT, STEPS)
