"""An account's conversations erased with it, by a worker that the test plays."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin_values import Account
from agentchat.bus.bus import Bus
from agentchat.contracts import events, subjects, wire
from agentchat.contracts.admin_errors import Conflict, NotFound, Unavailable
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.contracts.messages import EraseAnswered, EraseConversation
from agentchat.conversations.event_store.log import Log
from agentchat.conversations.event_store.store import ConversationStore, open_store
from agentchat.conversations.projections import conversations_table as threads
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.runtime.postgres import Pool, acquire_connection

AT = "2026-11-21T09:30:00Z"


class Eraser:
    """Erases what the log has. The projector has heard of each before the next is asked for."""

    def __init__(self, store: ConversationStore, pool: Pool) -> None:
        self.asked: list[str] = []
        self._store = store
        self._follower = Follower(pool, Log(pool), [threads.PROJECTION])

    async def handle(self, data: bytes) -> bytes:
        command = wire.decode_message(EraseConversation, data)
        self.asked.append(command.conversation_id)
        found = await self._store.load(command.conversation_id)
        if found.account_id != command.account_id or found.erased:
            return wire.encode(EraseAnswered(outcome="not_found"))
        erased = events.ConversationErased(trace_id=command.trace_id, at=AT, account_id=command.account_id)
        await self._store.append(found, [erased])
        return wire.encode(EraseAnswered(outcome="erased"))

    async def project(self) -> None:
        while True:
            await self._follower.step()
            await asyncio.sleep(0.01)


@pytest.fixture
async def eraser(
    admin: Admin, pool: Pool, migrated_database_url: str, fresh_nats_url: str
) -> AsyncIterator[tuple[Eraser, Admin]]:
    """It, and an administrator with a bus."""
    async with (
        open_store(migrated_database_url) as store,
        Bus.connect(fresh_nats_url, name="test-eraser") as bus,
    ):
        played = Eraser(store, pool)
        await bus.rpc.serve(subjects.ALL_COMMANDS, "test-erasers", played.handle)
        projecting = asyncio.create_task(played.project())
        yield played, replace(admin, bus=bus)
        projecting.cancel()
        await asyncio.wait([projecting])


async def listed(pool: Pool, account: Account, created_at: str) -> str:
    """A conversation that the read model lists, and the log does not have."""
    stray = make_id()
    async with acquire_connection(pool) as conn:
        await conn.execute(
            "INSERT INTO conversations (conversation_id, account_id, message_count, created_at, updated_at,"
            " listed, events, bytes) VALUES (%s, %s, 1, %s, %s, true, 1, 1)",
            [stray, account.id, created_at, created_at],
        )
    return stray


async def test_what_the_log_does_not_have_ends_the_deletion_and_is_named(
    eraser: tuple[Eraser, Admin], account: Account, pool: Pool, migrated_database_url: str
) -> None:
    played, admin = eraser
    held = [make_id() for _ in range(3)]
    async with open_store(migrated_database_url) as store:
        for thread in held:
            started = events.ConversationStarted(trace_id="a" * 32, at=AT, account_id=account.id)
            await store.append(await store.load(thread), [started])
    # More of them than are looked at in one go, and newer than what can be erased.
    strays = {await listed(pool, account, f"2026-11-22T09:30:00.{n:03}Z") for n in range(101)}
    async with asyncio.timeout(30):
        with pytest.raises(Unavailable, match="the log does not have") as refused:
            await admin_accounts.delete(admin, account.id, force=True)
    assert sum(stray in str(refused.value) for stray in strays) == 5
    assert set(held) < set(played.asked)
    for thread in held:
        assert (await Log(pool).load_conversation(thread)).erased
    assert (await admin_accounts.get(admin, account.id)).disabled
    async with acquire_connection(pool) as conn:  # as the read model is without them, once it was rebuilt
        await conn.execute("DELETE FROM conversations WHERE conversation_id = ANY(%s)", [[*strays]])
    await admin_accounts.delete(admin, account.id, force=True)
    with pytest.raises(NotFound):
        await admin_accounts.get(admin, account.id)


async def test_conversations_that_no_list_shows_go_with_their_account(
    eraser: tuple[Eraser, Admin], account: Account, pool: Pool, migrated_database_url: str
) -> None:
    _, admin = eraser
    unlisted = make_unlisted_id()
    async with open_store(migrated_database_url) as store:
        started = events.ConversationStarted(trace_id="a" * 32, at=AT, account_id=account.id)
        await store.append(await store.load(unlisted), [started])
    async with asyncio.timeout(30):
        with pytest.raises(Conflict, match="conversation"):
            await admin_accounts.delete(admin, account.id)
        await admin_accounts.delete(admin, account.id, force=True)
    assert (await Log(pool).load_conversation(unlisted)).erased
