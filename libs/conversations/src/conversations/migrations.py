"""The tables of this package, made once by the database's owner before any service starts.

The event table and the type of its rows are as the eventsourcing library's recorder would create them, but
for the column of hashes (`chain`). What services may do with each table is granted here: events they may read
and append, never change or remove. After ConversationErased the conversation's other events are removed
(`erased_rows`), and weeks later itself (`compacted_erasures`), and no others.
"""

from conversations import compacted_erasures, erased_rows, erasures, unfinished_forks
from conversations.chain import links
from conversations.claims import idempotency, tries
from conversations.event_store import appending, feed_reader
from conversations.leases import abandoned_runs, availability, waiting_line
from conversations.projections import (
    approvals,
    conversations,
    follower,
    messages,
    open_runs,
    runs,
    shadow,
    storage,
    tools,
    usage,
)
from conversations.queries import find_run, finding_approvals, shown_history, unlisted
from runtime import migrations

_EVENTS = """
CREATE TABLE conversation_events (
    originator_id text NOT NULL,
    originator_version bigint NOT NULL,
    topic text,
    state bytea,
    notification_id bigserial,
    PRIMARY KEY (originator_id, originator_version)
) WITH (
    autovacuum_enabled = true,
    autovacuum_vacuum_threshold = 100000000,
    autovacuum_vacuum_scale_factor = 0.5,
    autovacuum_analyze_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.01
);
CREATE UNIQUE INDEX conversation_events_notification_id_idx ON conversation_events (notification_id);
CREATE TYPE stored_event_text AS (
    originator_id text, originator_version bigint, topic text, state bytea
);
GRANT SELECT, INSERT ON conversation_events TO agentchat_service;
GRANT USAGE ON SEQUENCE conversation_events_notification_id_seq TO agentchat_service;
"""

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
    expires_at timestamptz NOT NULL
);
CREATE INDEX waiting_line_conversation_idx ON waiting_line (conversation_id, place);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_leases, waiting_line TO agentchat_service;
"""

_DERIVED = "\n".join(
    (
        follower.TABLES,
        conversations.FIRST_TABLES,
        messages.PROJECTION.tables,
        open_runs.PROJECTION.tables,
        abandoned_runs.TABLES,
    )
)

# Each statement that appends prepares the expressions of the table's indexes again, and parses a function in
# SQL to see whether it can be inlined, which convert_from forbids: a seventh of an append's time.
_INDEXED_FIELDS = "\n".join(
    f"""
CREATE OR REPLACE FUNCTION {function}(state bytea) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    AS $$ BEGIN RETURN convert_from(state, 'UTF8')::json ->> '{field}'; END $$;
"""
    for function, field in (
        ("trace_of_event", "trace_id"),
        ("shown_with_event", "shown_sha256"),
        ("approval_of_event", "approval_id"),
    )
)

STEPS = (
    _EVENTS,
    _LEASES,
    _DERIVED,
    erasures.TABLES,
    usage.PROJECTION.tables,
    find_run.INDEX,
    idempotency.TABLES,
    runs.PROJECTION.tables,
    tools.PROJECTION.tables,
    shadow.TABLES,
    feed_reader.TABLES,
    erasures.PROGRESS,
    idempotency.HASHED,
    find_run.ENDS,
    waiting_line.ACCOUNTS,
    availability.TABLES,
    shadow.OWNED,
    shadow.KEPT,
    shown_history.FUNCTION,
    tries.COLUMNS,
    appending.FUNCTION,
    conversations.DESCRIBED,
    finding_approvals.FUNCTION,
    approvals.PROJECTION.tables,
    shadow.APPROVALS,
    conversations.FORKED,
    _INDEXED_FIELDS,
    links.TABLES,
    find_run.OPEN,
    links.DRAWN,
    erased_rows.TABLES,
    find_run.OPEN_AND_VISIBLE,
    unfinished_forks.TABLES,
    storage.PROJECTION.tables,
    shadow.STORAGE,
    compacted_erasures.TABLES,
)


async def migrate(database_url: str) -> None:
    """Bring the tables up to date, as the database's owner. Safe to repeat, and from several processes."""
    async with migrations.migrating(database_url) as conn:
        await migrations.apply(conn, "conversations", STEPS)
    await migrations.build_indexes(
        database_url,
        shown_history.INDEXES
        | unlisted.INDEXES
        | finding_approvals.INDEXES
        | conversations.INDEXES
        | compacted_erasures.INDEXES,
    )
