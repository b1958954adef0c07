"""Create and update the table of files."""

from agentchat.runtime.migrations import apply, open_migration

COMPONENT = "files"

# A row is `uploading` before its bytes are written, and `removed` until they are deleted, so bytes always
# have a row. It outlives its account, until the bytes are deleted.
_TABLES = """
CREATE TABLE files (
    file_id text PRIMARY KEY,
    account_id text NOT NULL,
    user_id text,
    sha256 text NOT NULL,
    media_type text NOT NULL,
    bytes bigint NOT NULL,
    name text NOT NULL,
    purpose text NOT NULL,
    state text NOT NULL CHECK (state IN ('uploading', 'stored', 'removed')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz
);
CREATE INDEX files_by_account ON files (account_id, file_id);
CREATE INDEX files_by_content ON files (account_id, sha256);
CREATE INDEX files_not_stored ON files (created_at) WHERE state <> 'stored';
CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON files TO agentchat_service;
"""

STEPS = (_TABLES,)


async def migrate(database_url: str) -> None:
    """Create or update the table. Safe to repeat.

    Raises agentchat.runtime.migrations.MigrationError, psycopg.Error.
    """
    async with open_migration(database_url) as conn:
        await apply(conn, COMPONENT, STEPS)
