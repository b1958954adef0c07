"""The tables of webhooks, step by step. Steps are only ever added."""

from runtime.migrations import apply, migrating

COMPONENT = "webhooks"

# The live cursor of an endpoint has its id, and no end; each replay has a cursor of its own.
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
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz,
    disabled_reason text,
    failing_since timestamptz,
    failures integer NOT NULL DEFAULT 0,
    not_before timestamptz
);
CREATE INDEX webhook_endpoints_by_account ON webhook_endpoints (account_id, endpoint_id);
CREATE TABLE webhook_cursors (
    cursor_id text PRIMARY KEY,
    endpoint_id text NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    position bigint NOT NULL,
    until bigint
);
CREATE INDEX webhook_cursors_by_endpoint ON webhook_cursors (endpoint_id);
CREATE TABLE webhook_deliveries (
    delivery_id text PRIMARY KEY,
    endpoint_id text NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    place bigint GENERATED ALWAYS AS IDENTITY,
    type text NOT NULL,
    position bigint,
    body json,
    status text NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    attempts jsonb NOT NULL DEFAULT '[]',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_attempt_at timestamptz
);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, place);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at)
 WHERE next_attempt_at IS NOT NULL;
-- In the order of time as they are, and read once an hour: nothing that each delivery should pay for.
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries USING brin (created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoints, webhook_cursors, webhook_deliveries
   TO agentchat_service;
"""

STEPS = (_TABLES,)


async def migrate(database_url: str) -> None:
    """Make or update the tables, after the directory's. Idempotent; several at once take turns.

    Raises runtime.migrations.MigrationError, psycopg.Error.
    """
    async with migrating(database_url) as conn:
        await apply(conn, COMPONENT, STEPS)
