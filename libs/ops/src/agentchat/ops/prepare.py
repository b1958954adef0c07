"""Migrate the database, then create the demo's data (`python -m agentchat.ops.prepare`).

It runs as a separate process, so that its imports use no memory afterwards. `agentchat migrate` runs the
migrations only.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Annotated

import msgspec

from agentchat.knowledge.settings import EmbedderSettings
from agentchat.ops.demo import Demo
from agentchat.runtime.settings import ServiceSettings, Setting, load_or_exit


class DatabaseSettings(ServiceSettings, frozen=True, kw_only=True):
    """Settings of `agentchat migrate`."""

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]


class PrepareSettings(EmbedderSettings, frozen=True, kw_only=True):
    """Settings of this module. `demo` is a Demo as JSON; if unset, no data is created."""

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
    import agentchat.conversations.migrations
    import agentchat.directory.migrations
    import agentchat.files.migrations
    import agentchat.knowledge.migrations
    import agentchat.tool_runner.migrations
    import agentchat.webhooks.migrations
    from agentchat.ops import table_grants

    await agentchat.directory.migrations.migrate(database_url)
    await agentchat.conversations.migrations.migrate(database_url)
    await agentchat.files.migrations.migrate(database_url)
    await agentchat.knowledge.migrations.migrate(database_url)
    await agentchat.tool_runner.migrations.migrate(database_url)
    await agentchat.webhooks.migrations.migrate(database_url)
    await table_grants.grant(database_url)


async def _prepare(settings: PrepareSettings) -> None:
    from agentchat.knowledge.embedding.configured_embedder import open_embedder
    from agentchat.ops.seed import seed

    await migrate(settings.database_url)
    if settings.demo is None:
        return
    wanted = msgspec.json.decode(settings.demo, type=Demo)
    async with open_embedder(settings) as embedder:
        await seed(
            settings.database_url, settings.secret_key, wanted, settings.previous_secret_keys, embedder
        )


def run_migrations(database_url: str) -> None:
    """Run `migrate` for a command. Exits with a line on stderr if it fails."""
    _run_or_exit(migrate(database_url))


def _run_or_exit(work: Coroutine[None, None, None]) -> None:
    import psycopg

    from agentchat.contracts.admin_errors import AdminError
    from agentchat.knowledge.errors import KnowledgeError
    from agentchat.runtime import logs
    from agentchat.runtime.migrations import MigrationError
    from agentchat.runtime.postgres import DatabaseUnavailable

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
    """Prepare the database. Command-line arguments are ignored; they only show in `ps`."""
    _run_or_exit(_prepare(load_or_exit(PrepareSettings, os.environ)))


if __name__ == "__main__":
    main()
