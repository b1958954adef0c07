"""The tables of this package, made once by the database's owner before any service starts.

The event table and the type of its rows are as the eventsourcing library's recorder would create them. What
services may do with each table is granted here: they may read events, and append them by `append_events`.
After ConversationErased the conversation's other events are removed, and weeks later itself (`erased_rows`),
and no others.
"""

from pathlib import Path

from conversations import erased_rows, erasures
from conversations.claims import idempotency
from conversations.event_store import feed_reader
from conversations.leases import abandoned_runs
from conversations.projections import (
    approvals_table,
    conversations_table,
    feedback_table,
    follower,
    messages_table,
    open_runs_table,
    runs_table,
    search_table,
    storage_table,
    tools_table,
    usage_table,
)
from conversations.queries import (
    find_run,
    finding_approvals,
    finding_feedback,
    shown_history,
    unlisted,
    what_if_runs,
)
from runtime import migrations

_READABLE = """
CREATE VIEW readable_conversation_events AS
SELECT * FROM conversation_events
 WHERE topic = 'conversation_erased.v1'
    OR originator_id <> ALL (ARRAY(SELECT conversation_id FROM unfinished_erasures));
GRANT SELECT ON readable_conversation_events TO agentchat_service;
"""

_SCHEMA = (Path(__file__).parent / "event_store" / "schema.sql").read_text()

BASELINE = "\n".join(
    (
        _SCHEMA,
        abandoned_runs.TABLES,
        unlisted.TABLES,
        erasures.TABLES,
        what_if_runs.TABLES,
        erased_rows.TABLES,
        _READABLE,
        find_run.TABLES,
        shown_history.TABLES,
        finding_approvals.TABLES,
        finding_feedback.INDEX,
        idempotency.TABLES,
        feed_reader.TABLES,
        follower.TABLES,
        conversations_table.PROJECTION.tables,
        messages_table.PROJECTION.tables,
        open_runs_table.PROJECTION.tables,
        usage_table.PROJECTION.tables,
        runs_table.PROJECTION.tables,
        tools_table.PROJECTION.tables,
        approvals_table.PROJECTION.tables,
        storage_table.PROJECTION.tables,
        search_table.PROJECTION.tables,
        feedback_table.PROJECTION.tables,
    )
)

STEPS = (BASELINE,)


async def migrate(database_url: str) -> None:
    """Bring the tables up to date, as the database's owner. Safe to repeat, and from several processes.

    Raises runtime.migrations.MigrationError, psycopg.Error.
    """
    async with migrations.migrating(database_url) as conn:
        await migrations.apply(conn, "conversations", STEPS)
