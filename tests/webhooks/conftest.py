"""An account with endpoints, a receiver, and the sender that a projector runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import psycopg
import pytest

from agentchat.administration import admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.contracts.webhooks import (
    EVENT_TYPES,
    Delivery,
    Endpoint,
    EventType,
    IssuedEndpoint,
    NewEndpoint,
    Payload,
)
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.net_guard import Guard
from agentchat.runtime.postgres import Pool, acquire_connection
from agentchat.webhooks import deliveries, endpoints, retry_schedule
from agentchat.webhooks import webhook_sender as sender_module
from agentchat.webhooks.delivery_projection import DeliveryProjection
from agentchat.webhooks.webhook_sender import DeliverySender
from tests.administrator import SEALER, administrator
from tests.conversations.given import AT, trace, turn
from tests.webhooks.receiver import Receiver, open_receiver


def have_attempts(count: int) -> Callable[[list[Delivery]], bool]:
    """Return a condition: so many deliveries have a recorded attempt."""
    return lambda found: sum(bool(each.attempts) for each in found) == count


class World(msgspec.Struct):
    """One account, what it does, its receiver, and what is known of its deliveries."""

    pool: Pool
    store: ConversationStore
    account_id: str
    receiver: Receiver
    sender: DeliverySender
    sending: asyncio.Task[None]

    async def stop_sending(self) -> None:
        """Stop the sender, so that nobody but the test claims deliveries."""
        self.sending.cancel()
        await asyncio.wait([self.sending])

    async def chat(self, word: str = "a", text: str = "It has shipped.", account: str | None = None) -> str:
        """Store a conversation of one run; return its id."""
        began = events.ConversationStarted(trace_id=trace(word), at=AT, account_id=account or self.account_id)
        stored = [began, *turn(word, "Where is it?", text)]
        conversation = Conversation(conversation_id=make_id())
        return (await self.store.append(conversation, stored)).conversation_id

    async def erase(self, conversation_id: str) -> None:
        conversation = await Log(self.pool).load_conversation(conversation_id)
        erased = events.ConversationErased(trace_id=trace("erasing"), at=AT, account_id=self.account_id)
        await self.store.append(conversation, [erased])

    async def create_endpoint(
        self, url: str, *types: EventType, payload: Payload = "thin", account: str | None = None
    ) -> IssuedEndpoint:
        """Create an endpoint at a URL, or at a path of the receiver."""
        url = self.receiver.build_url(url) if url.startswith("/") else url
        new = NewEndpoint(url=url, events=types or EVENT_TYPES, payload=payload)
        return await endpoints.create_endpoint(self.pool, SEALER, account or self.account_id, new)

    async def list_deliveries(self, endpoint_id: str) -> list[Delivery]:
        """List the deliveries, the newest first."""
        found, _ = await deliveries.list_deliveries(
            self.pool, self.account_id, endpoint_id, status=None, before=None, limit=100
        )
        return found

    async def wait_until(
        self, endpoint_id: str, holds: Callable[[list[Delivery]], bool], seconds: float = 60
    ) -> list[Delivery]:
        """Wait until `holds` is true of the deliveries, and return them."""
        async with asyncio.timeout(seconds):
            while not holds(found := await self.list_deliveries(endpoint_id)):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        return found

    async def wait_until_disabled(self, endpoint_id: str) -> Endpoint:
        async with asyncio.timeout(60):
            while True:
                found = await endpoints.get_endpoint(self.pool, self.account_id, endpoint_id)
                if found.disabled:
                    return found
                await asyncio.sleep(0.02)

    async def hold(self) -> None:
        """Send nothing to any endpoint until `release`."""
        await self.execute("UPDATE webhook_endpoints SET not_before = clock_timestamp() + interval '1 hour'")

    async def release(self, endpoint_id: str, count: int) -> None:
        """Send again, once the endpoint has so many deliveries: they are claimed together."""
        await self.wait_until(endpoint_id, lambda found: len(found) == count)
        await self.execute("UPDATE webhook_endpoints SET not_before = NULL")

    async def execute(self, statement: str, *values: object) -> None:
        async with acquire_connection(self.pool) as conn:
            await conn.execute(statement.encode(), values)


@contextlib.asynccontextmanager
async def run_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task while the block does."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def follow(pool: Pool, sender: DeliverySender) -> None:
    """Insert deliveries, as the projector that leads does."""
    projection = DeliveryProjection(pool, Log(pool), on_inserted=sender.wake, on_erased=sender.forget)
    while True:
        if not await projection.step():
            await asyncio.sleep(0.02)


@pytest.fixture
def guard() -> Guard:
    return Guard(["127.0.0.1:*"])


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry within moments."""
    monkeypatch.setattr(retry_schedule, "RETRY_SECONDS", (0.05,) * 9)
    monkeypatch.setattr(retry_schedule, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(sender_module, "_TOGETHER_SECONDS", 0.02)
    monkeypatch.setattr(sender_module, "_POLL_SECONDS", 0.05)


@pytest.fixture
async def world(
    migrated_database_url: str, pool: Pool, store: ConversationStore, guard: Guard, hurry: None
) -> AsyncIterator[World]:
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute("TRUNCATE webhook_endpoints, webhook_deliveries")
        await owner.execute(
            "UPDATE webhook_position SET position ="
            " (SELECT coalesce(max(notification_id), 0) FROM conversation_events)"
        )
    account = await admin_accounts.create(administrator(pool), NewAccount(name="Acme", plan="Pro"))
    sender = DeliverySender(pool, SEALER, guard, "projector-test")
    async with open_receiver() as receiver, run_task(sender.run()) as sending, run_task(follow(pool, sender)):
        yield World(pool, store, account.id, receiver, sender, sending)
