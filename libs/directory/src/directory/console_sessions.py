"""Sessions of people whom a provider of OpenID Connect signed in to the console: one row for all consoles.

A row has what its provider is asked with, sealed, and the role that it last confirmed. One console at a time
asks: whoever claims the row. Nobody holds a lock or a connection while the provider is waited for.
"""

import msgspec

from runtime.postgres import Pool, connection

TABLE = """
CREATE TABLE console_sessions (
    session_id text PRIMARY KEY,
    subject text NOT NULL,
    role text NOT NULL,
    refresh_token bytea NOT NULL,
    checked_at timestamptz NOT NULL DEFAULT now(),
    claimed_until timestamptz NOT NULL DEFAULT now(),
    ends_at timestamptz NOT NULL
);
CREATE INDEX console_sessions_by_end ON console_sessions (ends_at);
CREATE TABLE ended_console_sessions (
    session_id text PRIMARY KEY,
    ends_at timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON console_sessions, ended_console_sessions TO agentchat_service;
"""


class ConfirmedRole(msgspec.Struct, frozen=True, kw_only=True):
    """The role of a session as it was confirmed `age` seconds ago.

    `claimed` is the sealed refresh token where it is the caller's turn to have it confirmed again.
    """

    role: str
    age: float
    subject: str
    claimed: bytes | None = None


async def end(pool: Pool, session_id: str, ends: float) -> None:
    """Refuse a session whose cookie is valid until `ends`, in Unix seconds. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        await conn.execute("DELETE FROM ended_console_sessions WHERE ends_at <= now()")
        await conn.execute(_END, [session_id, ends])


async def ended(pool: Pool) -> set[str]:
    """Return the sessions whose owners have signed out. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute("SELECT session_id FROM ended_console_sessions")).fetchall()
    return {session_id for (session_id,) in rows}


async def add(
    pool: Pool, session_id: str, *, subject: str, role: str, refresh_token: bytes, seconds: float
) -> None:
    """Keep a session that ends in so many seconds, and none that has ended. Raises DatabaseUnavailable."""
    given = {"id": session_id, "subject": subject, "role": role, "token": refresh_token, "seconds": seconds}
    async with connection(pool) as conn:
        await conn.execute("DELETE FROM console_sessions WHERE ends_at <= now()")
        await conn.execute(_ADD, given)


async def find(pool: Pool, session_id: str, *, fresh: float, claim: float) -> ConfirmedRole | None:
    """The role of a session; None where it has ended. A role that is `fresh` seconds old, and that nobody has
    claimed, is claimed for `claim` seconds. Raises DatabaseUnavailable.
    """
    given = {"id": session_id, "fresh": fresh, "claim": claim}
    async with connection(pool) as conn:
        row = await (await conn.execute(_FIND, given)).fetchone()
    return None if row is None else ConfirmedRole(role=row[0], age=row[1], subject=row[2], claimed=row[3])


async def confirm(pool: Pool, session_id: str, *, role: str, refresh_token: bytes) -> None:
    """Its provider has. Raises DatabaseUnavailable."""
    given = {"id": session_id, "role": role, "token": refresh_token}
    async with connection(pool) as conn:
        await conn.execute(_CONFIRM, given)


async def remove(pool: Pool, session_id: str) -> None:
    """End it, for every console. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        await conn.execute("DELETE FROM console_sessions WHERE session_id = %s", [session_id])


_ADD = """
INSERT INTO console_sessions (session_id, subject, role, refresh_token, ends_at)
VALUES (%(id)s, %(subject)s, %(role)s, %(token)s, now() + make_interval(secs => %(seconds)s))"""

_FIND = """
WITH claimed AS (
    UPDATE console_sessions SET claimed_until = now() + make_interval(secs => %(claim)s)
     WHERE session_id = %(id)s AND ends_at > now() AND claimed_until <= now()
       AND checked_at <= now() - make_interval(secs => %(fresh)s)
    RETURNING refresh_token)
SELECT role, extract(epoch FROM now() - checked_at)::float8, subject, (SELECT refresh_token FROM claimed)
  FROM console_sessions WHERE session_id = %(id)s AND ends_at > now()"""

_CONFIRM = """
UPDATE console_sessions
   SET role = %(role)s, refresh_token = %(token)s, checked_at = now(), claimed_until = now()
 WHERE session_id = %(id)s"""

_END = """
INSERT INTO ended_console_sessions (session_id, ends_at) VALUES (%s, to_timestamp(%s))
ON CONFLICT (session_id) DO NOTHING
"""
