"""Apply versioned SQL steps once and in order, by one process at a time, for each component by itself.

Steps are only ever added: a step that was applied and then edited is refused.
"""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import LiteralString

import msgspec
import psycopg
from psycopg import AsyncConnection, sql

from agentchat.runtime.database_roles import DEFAULTS, MEMBERS, ROLES, SERVICE_ROLE
from agentchat.runtime.postgres import Connection, Pool, acquire_connection, connect_options

_LOCK = 0x61676368  # arbitrary, but never changes: "agch"
_LOCK_SECONDS = 60
_OLDER_DATABASE = "databases from before release 0.10.0 cannot be upgraded; start with an empty database"


class MigrationError(Exception):
    """The database's schema does not result from these steps."""


@contextlib.asynccontextmanager
async def open_migration(database_url: str) -> AsyncIterator[Connection]:
    """Open one transaction that holds the migration lock; it commits when the block ends without an error.

    Other processes that migrate wait up to a minute and then find nothing left to do.
    """
    options = connect_options(database_url, role=None) | {"autocommit": False}
    options["options"] += f" -c statement_timeout={_LOCK_SECONDS}s -c idle_in_transaction_session_timeout=60s"
    async with await AsyncConnection.connect(database_url, **options) as conn:
        await conn.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield conn


async def apply(conn: Connection, component: str, steps: Sequence[str]) -> int:
    """Bring `component` to version `len(steps)` in the transaction of `conn`; return how many steps ran.

    A step may hold several statements. Steps are numbered from 1 and recorded in
    `schema_migrations(component, version, digest, at)`.

    Raises:
        MigrationError: The database is newer than `steps`, or an applied step reads differently now.
    """
    await conn.execute(_PREPARE)
    await _ensure_roles(conn)
    done = await _list_digests(conn, component)
    for version, (applied, step) in enumerate(zip(done, steps, strict=False), start=1):
        if applied != digest(step):
            hint = f": {_OLDER_DATABASE}" if version == 1 else ""
            raise MigrationError(f"{component} step {version} is not the one that was applied{hint}")
    if len(done) > len(steps):
        raise MigrationError(f"{component} is at version {len(done)}, newer than this program's {len(steps)}")
    for version in range(len(done) + 1, len(steps) + 1):
        # Bytes, so that a step may contain percent signs and several statements.
        await conn.execute(steps[version - 1].encode())
        await conn.execute(
            "INSERT INTO schema_migrations (component, version, digest) VALUES (%s, %s, %s)",
            [component, version, digest(steps[version - 1])],
        )
    return len(steps) - len(done)


class AppliedVersion(msgspec.Struct, frozen=True):
    """A component's version, with the time `at` which its last step was applied."""

    component: str
    version: int
    at: datetime


async def list_applied_versions(pool: Pool) -> list[AppliedVersion]:
    """Return the versions of all components, by name. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_VERSIONS)).fetchall()
    return [AppliedVersion(*row) for row in rows]


async def _list_digests(conn: Connection, component: str) -> list[str]:
    cursor = await conn.execute(
        "SELECT digest FROM schema_migrations WHERE component = %s ORDER BY version", [component]
    )
    return [each for (each,) in await cursor.fetchall()]


async def _ensure_roles(conn: Connection) -> None:
    """Create the roles that services act as, and let the migrating user take each of them.

    Roles belong to the whole server, so a process that migrates another database may create them at the same
    time. Being able to take them lets the owner's address serve a service too.
    """
    for role in ROLES:
        name = sql.Identifier(role)
        if not await _is_true(conn, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", role):
            with contextlib.suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
                async with conn.transaction():
                    await conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name))
                    for default in DEFAULTS.get(role, ()):
                        await conn.execute(sql.SQL(f"ALTER ROLE {{}} SET {default}").format(name))
        if not await _is_true(conn, _TAKES, role, role):
            await conn.execute(sql.SQL("GRANT {} TO CURRENT_USER WITH INHERIT TRUE, SET TRUE").format(name))
    for role, members in MEMBERS.items():
        for member in members:
            if not await _is_true(conn, "SELECT pg_has_role(%s, %s, 'USAGE')", member, role):
                await conn.execute(
                    sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(member))
                )
    await conn.execute(_GRANT)


async def _is_true(conn: Connection, question: LiteralString, *values: object) -> bool:
    return await (await conn.execute(question, values)).fetchone() == (True,)


def digest(step: str) -> str:
    """Return the recorded hash of a step: of its text without its layout."""
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

# Since Postgres 16 a member by CREATEROLE has not the role's rights and may not set it.
_TAKES = "SELECT pg_has_role(current_user, %s, 'USAGE') AND pg_has_role(current_user, %s, 'SET')"

_GRANT = f"""
GRANT USAGE ON SCHEMA public TO {", ".join(ROLES)};
GRANT SELECT ON schema_migrations TO {SERVICE_ROLE};
""".encode()
