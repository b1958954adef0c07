"""`agentchat replay ...` for tests."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
from typer.testing import CliRunner

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.ops.errors import StackError
from agentchat.ops.main import app
from agentchat.runtime.postgres import open_pool
from tests.admin_cli.conftest import Done
from tests.administrator import administrator
from tests.conversations.read_models import follow
from tests.conversations.recorded import RecordedConversation, store_recorded

T = TypeVar("T")


class Commands:
    """`agentchat replay ...` on one database."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *arguments: str, stdin: bytes | None = None, **environ: str) -> Done:
        return self.run("replay", *arguments, stdin=stdin, **environ)

    def run(self, *arguments: str, stdin: bytes | None = None, **environ: str) -> Done:
        """Another command of `agentchat`."""
        given: dict[str, str | None] = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
        given |= {"AGENTCHAT_DATABASE_URL": self.url, **environ}
        result = CliRunner().invoke(app, arguments, input=stdin, env=given)
        if isinstance(result.exception, StackError):
            return Done(result.exception.exit_code, result.stdout, str(result.exception))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def account(self) -> str:
        """A new account's id."""
        return self.administer(lambda admin: admin_accounts.create(admin, NewAccount(name="Ada"))).id

    def administer(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """What `work` returns."""

        async def run() -> T:
            async with open_pool(self.url) as pool:
                return await work(administrator(pool))

        return asyncio.run(run())

    def events(self) -> int:
        with psycopg.connect(self.url) as conn:
            row = conn.execute("SELECT count(*) FROM readable_conversation_events").fetchone()
        return int(row[0]) if row else 0

    def project(self) -> None:
        async def work() -> None:
            async with open_pool(self.url) as pool:
                await follow(pool, Log(pool))

        asyncio.run(work())

    def store_recorded(self, conversation: RecordedConversation) -> None:
        async def work() -> None:
            async with open_store(self.url) as store:
                await store_recorded(store, conversation)

        asyncio.run(work())
