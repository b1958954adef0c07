"""Versioned SQL, applied once and in order, by one process at a time, each component on its own.

A component's steps are only ever added to: a step that was applied and then edited is refused.
"""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import LiteralString

import msgspec
import psycopg
from psycopg import AsyncConnection, sql

from agentchat.runtime.postgres import Connection, Pool, connect_options, connection
from agentchat.runtime.roles import MEMBERS, ROLES, SERVICE_ROLE

_LOCK = 0x61676368  # any number will do, as long as it stays the same: "agch"
_LOCK_SECONDS = 60
_OLDER_DATABASE = "databases from before release 0.10.0 cannot be upgraded; start with an empty database"


class MigrationError(Exception):
    """The database's schema is not one that these steps lead to."""


@contextlib.asynccontextmanager
async def migrating(database_url: str) -> AsyncIterator[Connection]:
    """One transaction on `database_url` that holds the migration lock; commits when the block ends well.

    Others that migrate wait (up to a minute) and then find nothing left to do.
    """
    options = connect_options(database_url, role=None) | {"autocommit": False}
    options["options"] += f" -c statement_timeout={_LOCK_SECONDS}s -c idle_in_transaction_session_timeout=60s"
    async with await AsyncConnection.connect(database_url, **options) as conn:
        await conn.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield conn


async def apply(conn: Connection, component: str, steps: Sequence[str]) -> int:
    """Bring `component` to version `len(steps)` within the open transaction of `conn`; returns how many ran.

    A step may hold several statements. Steps are numbered from 1 and recorded in
    `schema_migrations(component, version, digest, at)`. Raises MigrationError where the database is newer
    than `steps`, or an applied step reads differently now.
    """
    await conn.execute(_PREPARE)
    await _ensure_roles(conn)
    done = await _applied(conn, component)
    for version, (applied, step) in enumerate(zip(done, steps, strict=False), start=1):
        if applied != digest(step):
            hint = f": {_OLDER_DATABASE}" if version == 1 else ""
            raise MigrationError(f"{component} step {version} is not the one that was applied{hint}")
    if len(done) > len(steps):
        raise MigrationError(f"{component} is at version {len(done)}, newer than this program's {len(steps)}")
    for version in range(len(done) + 1, len(steps) + 1):
        # Bytes: no percent sign is a placeholder then, and a step may hold several statements.
        await conn.execute(steps[version - 1].encode())
        await conn.execute(
            "INSERT INTO schema_migrations (component, version, digest) VALUES (%s, %s, %s)",
            [component, version, digest(steps[version - 1])],
        )
    return len(steps) - len(done)


class AppliedVersion(msgspec.Struct, frozen=True):
    """How far a component's steps were applied, the last one at `at`."""

    component: str
    version: int
    at: datetime


async def applied_versions(pool: Pool) -> list[AppliedVersion]:
    """Of all components, by name. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_VERSIONS)).fetchall()
    return [AppliedVersion(*row) for row in rows]


async def _applied(conn: Connection, component: str) -> list[str]:
    cursor = await conn.execute(
        "SELECT digest FROM schema_migrations WHERE component = %s ORDER BY version", [component]
    )
    return [each for (each,) in await cursor.fetchall()]


async def _ensure_roles(conn: Connection) -> None:
    """The roles that services act as. They are the whole server's: who migrates another database may race us.

    Who migrates may take each of them, so that the owner's address serves a service too.
    """
    for role in ROLES:
        name = sql.Identifier(role)
        if not await _holds(conn, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", role):
            with contextlib.suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
                async with conn.transaction():
                    await conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name))
        if not await _holds(conn, _TAKES, role, role):
            await conn.execute(sql.SQL("GRANT {} TO CURRENT_USER WITH INHERIT TRUE, SET TRUE").format(name))
    for role, members in MEMBERS.items():
        for member in members:
            if not await _holds(conn, "SELECT pg_has_role(%s, %s, 'USAGE')", member, role):
                await conn.execute(
                    sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(member))
                )
    await conn.execute(_GRANT)


async def _holds(conn: Connection, question: LiteralString, *values: object) -> bool:
    return await (await conn.execute(question, values)).fetchone() == (True,)


def digest(step: str) -> str:
    """What is recorded of a step: its text but for its layout."""
    return hashlib.sha256(" ".join(step.split()).encode()).hexdigest()


_PREPARE = b"""
CREATE TABLE IF NOT EXISTS schema_migrations (
    component text NOT NULL,
    version integer NOT NULL,
    digest text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (component, version)
)
"""

_VERSIONS = (
    "SELECT component, max(version), max(at) FROM schema_migrations GROUP BY component ORDER BY component"
)

# Members of a role by CREATEROLE alone have neither its rights nor may take it (since Postgres 16).
_TAKES = "SELECT pg_has_role(current_user, %s, 'USAGE') AND pg_has_role(current_user, %s, 'SET')"

_GRANT = f"""
GRANT USAGE ON SCHEMA public TO {", ".join(ROLES)};
GRANT SELECT ON schema_migrations TO {SERVICE_ROLE};
""".encode()
