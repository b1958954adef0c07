"""Create and update the directory's tables. Steps are only ever added."""

from agentchat.directory import agent_config, console_sessions, named_tokens, tool_authorizations
from agentchat.runtime.migrations import apply, open_migration

COMPONENT = "directory"

_TABLES = """
CREATE TABLE plans (
    name text PRIMARY KEY,
    requests_per_minute integer CHECK (requests_per_minute > 0),
    concurrent_runs integer CHECK (concurrent_runs > 0),
    tokens_per_month bigint CHECK (tokens_per_month >= 0),
    form2_streaming boolean NOT NULL,
    max_message_bytes integer CHECK (max_message_bytes > 0),
    storage_bytes bigint CHECK (storage_bytes >= 0),
    user_requests_per_minute integer CHECK (user_requests_per_minute > 0),
    user_concurrent_runs integer CHECK (user_concurrent_runs > 0),
    user_tokens_per_month bigint CHECK (user_tokens_per_month >= 0)
);
CREATE TABLE accounts (
    account_id text PRIMARY KEY,
    name text NOT NULL,
    plan text NOT NULL REFERENCES plans ON UPDATE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz,
    deletion_requested_at timestamptz,
    require_user boolean NOT NULL DEFAULT false,
    monthly_budget numeric CHECK (monthly_budget >= 0),
    user_monthly_budget numeric CHECK (user_monthly_budget >= 0),
    retention_days integer CHECK (retention_days > 0)
);
CREATE INDEX accounts_by_plan ON accounts (plan);
CREATE INDEX accounts_to_delete ON accounts (account_id) WHERE deletion_requested_at IS NOT NULL;
CREATE TABLE api_keys (
    key_id text PRIMARY KEY,
    account_id text NOT NULL REFERENCES accounts ON DELETE CASCADE,
    name text NOT NULL,
    key_hash bytea NOT NULL UNIQUE,
    last4 text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    rotated_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    disabled_at timestamptz,
    scopes text[] NOT NULL DEFAULT '{chat,read,manage,approve}',
    old_key_hash bytea UNIQUE,
    old_key_until timestamptz
);
CREATE INDEX api_keys_by_account ON api_keys (account_id);
CREATE TABLE agents (
    agent_id text PRIMARY KEY,
    account_id text NOT NULL REFERENCES accounts ON DELETE CASCADE,
    current_version integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz,
    canary json,
    retention_days integer CHECK (retention_days > 0)
);
CREATE INDEX agents_by_account ON agents (account_id);
-- A version never changes. What the gateway reads for every request is in columns of its own, so that a
-- long system prompt is not read for it. `json`, not `jsonb`: a schema's properties keep their order.
CREATE TABLE agent_versions (
    agent_id text NOT NULL REFERENCES agents ON DELETE CASCADE,
    version integer NOT NULL,
    config json NOT NULL,
    provider_key bytea,
    fallback_keys bytea,
    mcp_headers bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    name text NOT NULL GENERATED ALWAYS AS (config ->> 'name') STORED,
    model text NOT NULL GENERATED ALWAYS AS (config ->> 'model') STORED,
    PRIMARY KEY (agent_id, version)
);
CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    action text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    subject_name text,
    before json,
    after json
);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);
CREATE INDEX audit_log_by_subject ON audit_log (subject, id);
CREATE INDEX audit_log_by_kind ON audit_log (kind, id);
"""

# A writer of the audit log can set neither the id nor the time of a row.
_GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON plans, accounts, api_keys, agents TO agentchat_service;
GRANT SELECT, INSERT, UPDATE (provider_key, fallback_keys, mcp_headers)
    ON agent_versions TO agentchat_service;
GRANT SELECT, INSERT (actor, action, kind, subject, subject_name, before, after)
    ON audit_log TO agentchat_service;
"""

# Inserted once, so that changed and deleted plans stay that way. "Unlimited" is for load tests.
_PLANS = """
INSERT INTO plans
    (name, requests_per_minute, concurrent_runs, tokens_per_month, form2_streaming, max_message_bytes,
     storage_bytes)
VALUES
    ('Starter',      60,    2,    1000000, false,  65536,   1073741824),
    ('Pro',         600,   20,   50000000, true,  262144, 107374182400),
    ('Enterprise', 6000,  200,       NULL, true,  262144,         NULL),
    ('Unlimited',  NULL, NULL,       NULL, true,    NULL,         NULL);
"""

_BASELINE = "\n".join(
    (
        *(_TABLES, _GRANTS, _PLANS, agent_config.FUNCTION + ";"),
        *(tool_authorizations.TABLE, named_tokens.TABLE, console_sessions.TABLE),
    )
)

STEPS = (_BASELINE,)


async def migrate(database_url: str) -> None:
    """Create or update the directory's tables. Idempotent; concurrent calls take turns.

    Raises:
        MigrationError: If the database is newer than this release.
        psycopg.Error: If a step fails.
    """
    async with open_migration(database_url) as conn:
        await apply(conn, COMPONENT, STEPS)
