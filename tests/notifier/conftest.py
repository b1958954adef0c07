"""An account with endpoints, a receiver, and the notifier that sends to it."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from administration import admin_accounts
from administration.admin_values import NewAccount
from contracts import events
from contracts.ids import new_id
from contracts.webhooks import (
    EVENT_TYPES,
    Delivery,
    Endpoint,
    EventType,
    IssuedEndpoint,
    NewEndpoint,
    Payload,
)
from conversations.aggregate.conversation import Conversation
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from runtime.postgres import Pool, connection
from tests.administrator import SEALER, administrator
from tests.conversations.given import AT, trace, turn
from tests.notifier.process import NotifierProcess
from tests.notifier.receiver import Receiver, receiving
from webhooks import deliveries, endpoints
from webhooks.delivery_projection import DeliveryProjection

HURRY: dict[str, Any] = {
    "notifier.__main__._NICENESS": 0,
    "notifier.schedule.RETRY_SECONDS": [0.05] * 9,
    "notifier.schedule.LONGEST_PAUSE": 0.2,
    "webhooks.outbox.LEASE_SECONDS": 90.0,
    "notifier.delivery_attempt.ATTEMPT_SECONDS": 60.0,
}

_END_NOTIFIERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE application_name LIKE 'notifier-%' AND datname = current_database()
"""


StartNotifier = Callable[..., NotifierProcess]


def attempted(count: int) -> Callable[[list[Delivery]], bool]:
    """Whether so many deliveries have an attempt that is recorded."""
    return lambda found: sum(bool(each.attempts) for each in found) == count


class World(msgspec.Struct):
    """One account, what it does, its receiver, and what is known of its deliveries."""

    pool: Pool
    store: ConversationStore
    account_id: str
    receiver: Receiver
    start: StartNotifier

    async def chat(self, word: str = "a", text: str = "It has shipped.", account: str | None = None) -> str:
        """A conversation of one run; returns its id."""
        began = events.ConversationStarted(trace_id=trace(word), at=AT, account_id=account or self.account_id)
        stored = [began, *turn(word, "Where is it?", text)]
        conversation = Conversation(conversation_id=new_id())
        return (await self.store.append(conversation, stored)).conversation_id

    async def erase(self, conversation_id: str) -> None:
        conversation = await Log(self.pool).conversation(conversation_id)
        erased = events.ConversationErased(trace_id=trace("erasing"), at=AT, account_id=self.account_id)
        await self.store.append(conversation, [erased])

    async def endpoint(
        self, url: str, *types: EventType, payload: Payload = "thin", account: str | None = None
    ) -> IssuedEndpoint:
        """One at a URL, or at a path of the receiver."""
        url = self.receiver.url(url) if url.startswith("/") else url
        new = NewEndpoint(url=url, events=types or EVENT_TYPES, payload=payload)
        return await endpoints.create(self.pool, SEALER, account or self.account_id, new)

    async def deliveries(self, endpoint_id: str) -> list[Delivery]:
        """The newest first."""
        found, _ = await deliveries.page(
            self.pool, self.account_id, endpoint_id, status=None, before=None, limit=100
        )
        return found

    async def until(
        self, endpoint_id: str, holds: Callable[[list[Delivery]], bool], seconds: float = 60
    ) -> list[Delivery]:
        """The deliveries, once `holds` is true of them."""
        async with asyncio.timeout(seconds):
            while not holds(found := await self.deliveries(endpoint_id)):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        return found

    async def until_disabled(self, endpoint_id: str) -> Endpoint:
        async with asyncio.timeout(60):
            while True:
                found = await endpoints.get(self.pool, self.account_id, endpoint_id)
                if found.disabled:
                    return found
                await asyncio.sleep(0.02)

    async def execute(self, statement: str, *values: object) -> None:
        async with connection(self.pool) as conn:
            await conn.execute(statement.encode(), values)


@contextlib.asynccontextmanager
async def following(pool: Pool) -> AsyncIterator[None]:
    """What the leading projector does for webhooks, while the block runs."""
    task = asyncio.create_task(_follow(pool))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _follow(pool: Pool) -> None:
    projection = DeliveryProjection(pool, Log(pool))
    while True:
        if not await projection.step():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def notifiers(migrated_database_url: str, tmp_path: Path) -> AsyncIterator[StartNotifier]:
    """Starts notifiers, which end with the block; what they are hurried by next to the rest, by keyword."""
    running: list[NotifierProcess] = []

    def start(
        name: str = "notifier-1", allow: str = "127.0.0.1:*", hurry: dict[str, Any] | None = None, **more: str
    ) -> NotifierProcess:
        environ = {
            "AGENTCHAT_DATABASE_URL": migrated_database_url,
            "AGENTCHAT_SECRET_KEY": base64.b64encode(b"k" * 32).decode(),
            "AGENTCHAT_WEBHOOK_ALLOW": allow,
            **more,
        }
        process = NotifierProcess(tmp_path, environ, HURRY | (hurry or {}))
        process.start(name)
        running.append(process)
        return process

    yield start
    for process in running:
        await process.end()


@pytest.fixture
async def world(
    migrated_database_url: str, pool: Pool, store: ConversationStore, tmp_path: Path
) -> AsyncIterator[World]:
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute(_END_NOTIFIERS)
        await owner.execute("TRUNCATE webhook_endpoints, webhook_cursors, webhook_deliveries")
        await owner.execute(
            "UPDATE webhook_position SET position ="
            " (SELECT coalesce(max(notification_id), 0) FROM conversation_events)"
        )
    account = await admin_accounts.create(administrator(pool), NewAccount(name="Acme", plan="Pro"))
    async with receiving() as receiver, notifiers(migrated_database_url, tmp_path) as start, following(pool):
        yield World(pool, store, account.id, receiver, start)
