"""The tables of this package, made once by the database's owner before any service starts.

The event table and the type of its rows are as the eventsourcing library's recorder would create them. What
services may do with each table is granted here: events they may read and append, never change or remove.
After ConversationErased the conversation's other events are removed, and weeks later itself (`erased_rows`),
and no others.
"""

from conversations import erased_rows, erasures
from conversations.claims import idempotency
from conversations.database import VISIBLE_TEXT
from conversations.event_store import appending, feed_reader, settled_position, snapshots, timelines
from conversations.leases import abandoned_runs, availability
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

_EVENTS = """
CREATE TABLE conversation_events (
    originator_id text NOT NULL,
    originator_version bigint NOT NULL,
    topic text,
    state bytea,
    notification_id bigint NOT NULL,
    PRIMARY KEY (originator_id, originator_version)
) WITH (
    autovacuum_enabled = true,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_analyze_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.01
);
CREATE SEQUENCE conversation_events_notification_id_seq OWNED BY conversation_events.notification_id;
CREATE UNIQUE INDEX conversation_events_notification_id_idx ON conversation_events (notification_id);
CREATE TYPE stored_event_text AS (
    originator_id text, originator_version bigint, topic text, state bytea
);
GRANT SELECT, INSERT ON conversation_events TO agentchat_service;
GRANT USAGE ON SEQUENCE conversation_events_notification_id_seq TO agentchat_service;
"""

_READABLE = f"""
CREATE VIEW readable_conversation_events AS
SELECT originator_id, originator_version, topic, state, notification_id FROM conversation_events
 WHERE {VISIBLE_TEXT};
GRANT SELECT ON readable_conversation_events TO agentchat_service;
"""  # noqa: S608 - a constant

_LEASES = """
CREATE TABLE run_leases (
    trace_id text PRIMARY KEY,
    attempt integer NOT NULL,
    worker text NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE TABLE waiting_line (
    trace_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    worker text NOT NULL,
    expires_at timestamptz NOT NULL,
    account_id text,
    model text
);
CREATE INDEX waiting_line_conversation_idx ON waiting_line (conversation_id, place);
CREATE INDEX waiting_line_account_idx ON waiting_line (account_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_leases, waiting_line TO agentchat_service;
"""

BASELINE = "\n".join(
    (
        _EVENTS,
        _LEASES,
        snapshots.TABLES,
        availability.TABLES,
        abandoned_runs.TABLES,
        unlisted.TABLES,
        settled_position.TABLES,
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
        appending.FUNCTION,
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
        timelines.STEP,
    )
)

STEPS = (BASELINE,)


async def migrate(database_url: str) -> None:
    """Bring the tables up to date, as the database's owner. Safe to repeat, and from several processes.

    Raises runtime.migrations.MigrationError, psycopg.Error.
    """
    async with migrations.migrating(database_url) as conn:
        await migrations.apply(conn, "conversations", STEPS)
