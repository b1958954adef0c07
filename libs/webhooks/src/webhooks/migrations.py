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

# A range of positions whose deliveries are to be inserted is a row of webhook_cursors with an id of its own;
# `until` NULL is the end of the log when it is first read. 0.9.0 follows the log by the row that has the id
# of its endpoint; what it has not sent is a range once. To disable an endpoint notes up to where deliveries
# were inserted, to enable it has the rest inserted, whichever release does it. The projection has read the
# log at least up to its stored position.
_OUTBOX = """
CREATE TABLE webhook_position (position bigint NOT NULL);
INSERT INTO webhook_position SELECT coalesce(max(notification_id), 0) FROM conversation_events;
GRANT SELECT, UPDATE ON webhook_position TO agentchat_service;
ALTER TABLE webhook_cursors ADD COLUMN resend boolean NOT NULL DEFAULT true;
ALTER TABLE webhook_endpoints
    ADD COLUMN begins_after bigint NOT NULL DEFAULT 0,
    ADD COLUMN stopped_at bigint,
    ADD COLUMN leased_until timestamptz,
    ADD COLUMN look_ups_failed integer NOT NULL DEFAULT 0;
ALTER TABLE webhook_deliveries SET (autovacuum_vacuum_scale_factor = 0.02);
INSERT INTO webhook_cursors (cursor_id, endpoint_id, position, resend)
SELECT gen_random_uuid()::text, endpoint_id, position, false
  FROM webhook_cursors JOIN webhook_endpoints USING (endpoint_id)
 WHERE cursor_id = endpoint_id AND disabled_at IS NULL;
UPDATE webhook_endpoints e SET stopped_at = c.position
  FROM webhook_cursors c WHERE c.cursor_id = e.endpoint_id AND disabled_at IS NOT NULL;
CREATE FUNCTION switch_webhook_endpoint() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NEW.disabled_at IS NOT NULL THEN
        NEW.stopped_at := greatest(NEW.begins_after, (SELECT position FROM public.webhook_position));
    ELSE
        INSERT INTO public.webhook_cursors (cursor_id, endpoint_id, position, resend)
        VALUES (gen_random_uuid()::text, NEW.endpoint_id, OLD.stopped_at, false);
        NEW.stopped_at := NULL;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER switch_webhook_endpoint BEFORE UPDATE OF disabled_at ON webhook_endpoints
   FOR EACH ROW WHEN ((OLD.disabled_at IS NULL) <> (NEW.disabled_at IS NULL))
   EXECUTE FUNCTION switch_webhook_endpoint();
"""

STEPS = (_TABLES, _OUTBOX)


async def migrate(database_url: str) -> None:
    """Make or update the tables, after the directory's. Idempotent; several at once take turns.

    Raises runtime.migrations.MigrationError, psycopg.Error.
    """
    async with migrating(database_url) as conn:
        await apply(conn, COMPONENT, STEPS)
