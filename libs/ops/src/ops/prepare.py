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


async def migrate(database_url: str) -> None:
    """Create or update every table, and grant the services their rights.

    Raises:
        psycopg.Error, MigrationError
    """
    import conversations.migrations
    import directory.migrations
    import knowledge.migrations
    import tool_runner.migrations
    import webhooks.migrations
    from ops import table_rights

    await directory.migrations.migrate(database_url)
    await conversations.migrations.migrate(database_url)
    await knowledge.migrations.migrate(database_url)
    await tool_runner.migrations.migrate(database_url)
    await webhooks.migrations.migrate(database_url)
    await table_rights.grant(database_url)


async def _prepare(settings: PrepareSettings) -> None:
    from knowledge.embedding.configured import embedder_of
    from ops.seed import seed

    await migrate(settings.database_url)
    if settings.demo is None:
        return
    wanted = msgspec.json.decode(settings.demo, type=Demo)
    async with embedder_of(settings) as embedder:
        await seed(
            settings.database_url, settings.secret_key, wanted, settings.previous_secret_keys, embedder
        )


def run_migrations(database_url: str) -> None:
    """Run `migrate` for a command. Exits with one line if the database does not allow it."""
    _run_or_exit(migrate(database_url))


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
