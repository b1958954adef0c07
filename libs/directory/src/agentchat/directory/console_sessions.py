"""Store the sessions of people who signed in to the console; all consoles share the rows.

The session of a person who signed in at an OpenID Connect provider holds the sealed refresh token and the
role that the provider confirmed last. The console that claims the row asks the provider again; it holds no
lock and no connection while it waits for the answer. The session of a named token has the role and accounts
of that token, and ends when it is revoked.
"""

import msgspec

from agentchat.runtime.postgres import Pool, acquire_connection

TABLE = """
CREATE TABLE console_sessions (
    session_id text PRIMARY KEY,
    credentials bytea NOT NULL,
    actor text NOT NULL,
    role text NOT NULL,
    token_name text REFERENCES admin_tokens ON DELETE CASCADE,
    subject text,
    refresh_token bytea,
    checked_at timestamptz NOT NULL DEFAULT now(),
    claimed_until timestamptz NOT NULL DEFAULT now(),
    ends_at timestamptz NOT NULL
);
CREATE INDEX console_sessions_by_end ON console_sessions (ends_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON console_sessions TO agentchat_service;
"""


class StoredSession(msgspec.Struct, frozen=True):
    """A session that ends in `seconds_left`, with its role as of `age` seconds ago.

    `subject` is None if no provider confirms the role. `claimed` is the sealed refresh token if the caller
    must now have the role confirmed. `account_ids` limit the session to these accounts.
    """

    actor: str
    role: str
    seconds_left: float
    subject: str | None
    age: float
    claimed: bytes | None = None
    account_ids: list[str] | None = None


async def add(
    pool: Pool,
    session_id: str,
    *,
    credentials: bytes,
    actor: str,
    role: str,
    seconds: float,
    subject: str | None,
    refresh_token: bytes | None,
    token_name: str | None = None,
) -> None:
    """Add a session that ends in `seconds`, and delete ended ones. Raises DatabaseUnavailable."""
    values = [session_id, credentials, actor, role, subject, refresh_token, token_name, seconds]
    async with acquire_connection(pool) as conn:
        await conn.execute("DELETE FROM console_sessions WHERE ends_at <= now()")
        await conn.execute(_ADD, values)


async def find(
    pool: Pool, session_id: str, *, credentials: bytes, fresh: float, claim: float
) -> StoredSession | None:
    """Return the session if it was started with these credentials and has not ended.

    If its role is older than `fresh` seconds and unclaimed, claim it for `claim` seconds.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
    """
    given = {"id": session_id, "credentials": credentials, "fresh": fresh, "claim": claim}
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_FIND, given)).fetchone()
    return None if row is None else StoredSession(*row)


async def exists(pool: Pool, session_id: str, credentials: bytes) -> bool:
    """Return True if the session has not ended. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return (await (await conn.execute(_EXISTS, [session_id, credentials])).fetchone()) is not None


async def confirm(pool: Pool, session_id: str, *, role: str, refresh_token: bytes) -> None:
    """Store the role that the provider confirmed, and the new token.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        await conn.execute(_CONFIRM, [role, refresh_token, session_id])


async def remove(pool: Pool, session_id: str) -> None:
    """End a session at every console. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        await conn.execute("DELETE FROM console_sessions WHERE session_id = %s", [session_id])


_ADD = """
INSERT INTO console_sessions (session_id, credentials, actor, role, subject, refresh_token, token_name,
                              ends_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, now() + make_interval(secs => %s))"""

_FIND = """
WITH claimed AS (
    UPDATE console_sessions SET claimed_until = now() + make_interval(secs => %(claim)s)
     WHERE session_id = %(id)s AND refresh_token IS NOT NULL AND ends_at > now() AND claimed_until <= now()
       AND checked_at <= now() - make_interval(secs => %(fresh)s)
    RETURNING refresh_token)
SELECT actor, coalesce(token.role, session.role), extract(epoch FROM ends_at - now())::float8,
       CASE WHEN refresh_token IS NOT NULL THEN subject END,
       extract(epoch FROM now() - checked_at)::float8, (SELECT refresh_token FROM claimed),
       token.account_ids
  FROM console_sessions AS session LEFT JOIN admin_tokens AS token ON token.name = token_name
 WHERE session_id = %(id)s AND credentials = %(credentials)s AND ends_at > now() AND revoked_at IS NULL"""

_EXISTS = """
SELECT FROM console_sessions LEFT JOIN admin_tokens ON name = token_name
 WHERE session_id = %s AND credentials = %s AND ends_at > now() AND revoked_at IS NULL"""

_CONFIRM = """
UPDATE console_sessions SET role = %s, refresh_token = %s, checked_at = now(), claimed_until = now()
 WHERE session_id = %s"""
