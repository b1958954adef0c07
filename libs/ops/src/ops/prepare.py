"""`python -m ops.prepare`: the stack's one job before its services: migrations, then the demo's data.

A process of its own, so that what it imports is gone when it has ended. `agentchat migrate` runs its first
half.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Annotated

import msgspec

from knowledge.settings import EmbedderSettings
from ops.demo import Demo
from runtime.settings import ServiceSettings, Setting, load_or_exit


class DatabaseSettings(ServiceSettings, frozen=True, kw_only=True):
    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]


class PrepareSettings(EmbedderSettings, frozen=True, kw_only=True):
    """`demo` is a Demo as JSON; unset: no data is wanted."""

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    demo: Annotated[str | None, Setting("AGENTCHAT_DEMO", secret=True)] = None
    alone: Annotated[bool, Setting("AGENTCHAT_ALONE")] = False
    """No other process uses the database now: it is the stack's own server, which has just been started."""


async def migrate(database_url: str, *, finish: bool = False) -> None:
    """Make or update every table, and say who may do what with it. Raises psycopg.Error, MigrationError.

    With `finish` also by what a process of the release before could not run next to.
    """
    import conversations.migrations
    import directory.migrations
    import journal.migrations
    import knowledge.migrations
    import webhooks.migrations
    from ops import table_rights

    await directory.migrations.migrate(database_url)
    await conversations.migrations.migrate(database_url, finish=finish)
    await knowledge.migrations.migrate(database_url)
    await journal.migrations.migrate(database_url)
    await webhooks.migrations.migrate(database_url)
    await table_rights.grant(database_url)


async def _prepare(settings: PrepareSettings) -> None:
    from knowledge.embedding.configured import embedder_of
    from ops.seed import seed

    await migrate(settings.database_url, finish=settings.alone)
    if settings.demo is None:
        return
    wanted = msgspec.json.decode(settings.demo, type=Demo)
    async with embedder_of(settings) as embedder:
        await seed(
            settings.database_url, settings.secret_key, wanted, settings.previous_secret_keys, embedder
        )


def run_migrations(database_url: str, *, finish: bool = False, reopen: bool = False) -> None:
    """`migrate` for a command; exits with one line where the database does not allow it."""
    _run_or_exit(_migrate(database_url, finish=finish, reopen=reopen))


async def _migrate(database_url: str, *, finish: bool, reopen: bool) -> None:
    import conversations.migrations

    if finish:
        await _check_no_older_process(database_url)
    await migrate(database_url, finish=finish)
    if reopen:
        await conversations.migrations.reopen(database_url)


async def _check_no_older_process(database_url: str) -> None:
    """Raises MigrationError where one of release 0.9.0 is connected: its sessions have no name."""
    from runtime.migrations import MigrationError, migrating

    async with migrating(database_url) as conn:
        users = [user for (user,) in await (await conn.execute(_NAMELESS)).fetchall()]
    if users:
        raise MigrationError(
            f"processes of release 0.9.0 are connected, or others without an application_name, as"
            f" {', '.join(users)}: end them first"
        )


_NAMELESS = """
SELECT DISTINCT usename::text FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend' AND application_name = '' ORDER BY 1
"""


def _run_or_exit(work: Coroutine[None, None, None]) -> None:
    import psycopg

    from contracts.admin_errors import AdminError
    from knowledge.errors import KnowledgeError
    from runtime import logs
    from runtime.migrations import MigrationError
    from runtime.postgres import DatabaseUnavailable

    logs.configure("prepare", "warning")
    try:
        asyncio.run(work)
    except (
        *(psycopg.Error, MigrationError, DatabaseUnavailable),
        *(AdminError, KnowledgeError, TimeoutError),
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        sys.exit(f"the database cannot be prepared: {reason}")


def main() -> None:
    """Its arguments, as every process's here, are only there to be seen in `ps`."""
    _run_or_exit(_prepare(load_or_exit(PrepareSettings, os.environ)))


if __name__ == "__main__":
    main()
