"""Threads for read models, what the tables hold of them, and the commands that build and prove these."""

import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from typer.testing import CliRunner

from agentchat.contracts.events import Event
from agentchat.contracts.examples import FILE
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.projection import Projection
from agentchat.conversations.projections.read_model_follower import BATCH, Follower
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.conversations.projections.rebuild_read_models import VerifiedReadModel, rebuild, verify
from agentchat.ops.errors import StackError
from agentchat.ops.main import app
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from tests.conversations.given import (
    ERASED,
    begin,
    build_conversation_started,
    build_feedback,
    build_held_call,
    build_run_failed,
    build_tool_returned,
    turn,
)

TABLES = [each.name for each in PROJECTIONS]
REMOVE_CONTENT = """
SELECT remove_content(ARRAY(SELECT notification_id FROM conversation_events WHERE originator_id = %s))
"""
_words = itertools.count()


async def empty_tables(database_url: str) -> None:
    """The log, the read models and their positions."""
    async with await psycopg.AsyncConnection.connect(database_url) as owner:
        tables = [
            *TABLES,
            "usage_by_day",
            "conversation_events",
            "projection_positions",
            "parked_events",
            "erasures",
        ]
        await owner.execute(f"TRUNCATE {', '.join(tables)}".encode())


@dataclass(frozen=True)
class Storage:
    """The log and the read models of the module's database."""

    store: ConversationStore
    log: Log
    pool: Pool
    url: str

    async def add(self, *stored: Event) -> Conversation:
        return await self.store.append(
            Conversation(conversation_id=make_id()), [build_conversation_started(), *stored]
        )

    async def store_conversations(self, count: int) -> list[Conversation]:
        """Threads with a rated turn, a run with an approved tool that failed, and an open one with a file."""
        made = []
        for _ in range(count):
            a, b, c = (f"{word}{next(_words)}" for word in "abc")
            tools = (*build_held_call(b, f"call-{b}"), build_tool_returned(f"call-{b}", word=b))
            failing = (*begin(b), *tools, build_run_failed(b))
            begun = begin(c, attachments=(FILE,))
            made.append(await self.add(*turn(a, "Hello", "Hi"), *failing, build_feedback(-1, word=a), *begun))
        return made

    async def erase(self, thread: Conversation) -> Conversation:
        return await self.store.append(thread, [ERASED])

    async def follow(self, projections: Sequence[Projection] = PROJECTIONS, **how: int | None) -> None:
        await follow(self.pool, self.log, projections, **how)

    async def rebuild(self, projections: Sequence[Projection] = PROJECTIONS, **how: Any) -> None:
        await rebuild(self.pool, self.log, projections, **how)

    async def verify(self, projections: Sequence[Projection] = PROJECTIONS) -> list[VerifiedReadModel]:
        return await verify(self.pool, self.log, projections)

    async def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        async with acquire_connection(self.pool) as conn:
            return await (await conn.execute(query.encode(), parameters or None)).fetchall()

    @contextlib.asynccontextmanager
    async def as_owner(self) -> AsyncIterator[Connection]:
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as owner:
            yield owner

    async def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table: await self.rows(f"SELECT * FROM {table} AS row ORDER BY row::text") for table in TABLES
        }


async def follow(
    pool: Pool,
    log: Log,
    projections: Sequence[Projection] = PROJECTIONS,
    *,
    batch: int | None = None,
    steps: int | None = None,
) -> None:
    """To the end of the log, or for so many steps."""
    follower = Follower(pool, log, projections, batch=batch or BATCH)
    while steps != 0 and await follower.step():
        steps = None if steps is None else steps - 1


def replay(database_url: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    result = CliRunner().invoke(app, ["replay", *arguments], env={"AGENTCHAT_DATABASE_URL": database_url})
    if isinstance(result.exception, StackError):
        return result.exception.exit_code, result.stdout, result.stderr + str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
