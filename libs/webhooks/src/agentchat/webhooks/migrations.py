"""The tables of webhooks."""

from agentchat.runtime.migrations import apply, open_migration

COMPONENT = "webhooks"

_TABLES = """
CREATE TABLE webhook_endpoints (
    endpoint_id text PRIMARY KEY,
    account_id text NOT NULL REFERENCES accounts ON DELETE CASCADE,
    url text NOT NULL,
    events text[] NOT NULL,
    payload text NOT NULL,
    secret bytea NOT NULL,
    secret_last4 text NOT NULL,
    previous_secret bytea,
    previous_until timestamptz,
    begins_after bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz,
    disabled_reason text,
    failing_since timestamptz,
    failures integer NOT NULL DEFAULT 0,
    not_before timestamptz
);
CREATE INDEX webhook_endpoints_by_account ON webhook_endpoints (account_id, endpoint_id);
-- `body` is NULL once the conversation was erased.
CREATE TABLE webhook_deliveries (
    delivery_id text PRIMARY KEY,
    endpoint_id text NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    place bigint GENERATED ALWAYS AS IDENTITY,
    type text NOT NULL,
    position bigint,
    conversation_id text,
    body text,
    status text NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    attempts jsonb NOT NULL DEFAULT '[]',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_attempt_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, place);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at)
 WHERE next_attempt_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_conversation ON webhook_deliveries (conversation_id);
-- In the order of time as they are, and read once an hour: nothing that each delivery should pay for.
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries USING brin (created_at);
CREATE TABLE webhook_position (position bigint NOT NULL);
INSERT INTO webhook_position SELECT coalesce(max(notification_id), 0) FROM conversation_events;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoints, webhook_deliveries TO agentchat_service;
GRANT SELECT, UPDATE ON webhook_position TO agentchat_service;
"""

STEPS = (_TABLES,)


async def migrate(database_url: str) -> None:
    """Create or update the tables, after those of the directory. Safe to repeat.

    Raises agentchat.runtime.migrations.MigrationError, psycopg.Error.
    """
    async with open_migration(database_url) as conn:
        await apply(conn, COMPONENT, STEPS)
