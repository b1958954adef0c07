"""The projector's loop erases an account's conversations with it; the test plays the worker."""

from collections.abc import AsyncIterator

import pytest

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin_values import Account, AccountChanges
from agentchat.bus.bus import Bus
from agentchat.contracts import events, subjects, wire
from agentchat.contracts.admin_errors import Conflict, NotFound
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.contracts.messages import EraseAnswered, EraseConversation
from agentchat.conversations.event_store.log import Log
from agentchat.conversations.event_store.store import ConversationStore, open_store
from agentchat.conversations.projections import conversations_table as threads
from agentchat.conversations.projections import runs_table
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.projector.deletion_step import CONVERSATIONS_AT_ONCE, DeletionStep
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.support.file_folder import OBJECTS

AT = "2026-11-21T09:30:00Z"


class Worker:
    """Erases as an orchestrator does, and follows the log as the projector does."""

    def __init__(self, store: ConversationStore, pool: Pool, bus: Bus) -> None:
        self._store = store
        self._follower = Follower(pool, Log(pool), [threads.PROJECTION, runs_table.PROJECTION])
        self.deletions = DeletionStep(bus, Log(pool), pool, OBJECTS)

    async def handle(self, data: bytes) -> bytes:
        command = wire.decode_message(EraseConversation, data)
        found = await self._store.load(command.conversation_id)
        if found.account_id != command.account_id or found.erased:
            return wire.encode(EraseAnswered(outcome="not_found"))
        erased = events.ConversationErased(trace_id=command.trace_id, at=AT, account_id=command.account_id)
        await self._store.append(found, [erased])
        return wire.encode(EraseAnswered(outcome="erased"))

    async def begin(self, account: Account, conversation_id: str) -> None:
        started = events.ConversationStarted(trace_id="a" * 32, at=AT, account_id=account.id)
        await self._store.append(await self._store.load(conversation_id), [started])

    async def project(self) -> None:
        while await self._follower.step():
            pass


@pytest.fixture
async def worker(migrated_database_url: str, fresh_nats_url: str, pool: Pool) -> AsyncIterator[Worker]:
    async with (
        open_store(migrated_database_url) as store,
        Bus.connect(fresh_nats_url, name="test-eraser") as bus,
    ):
        played = Worker(store, pool, bus)
        await bus.rpc.serve(subjects.ALL_COMMANDS, "test-erasers", played.handle)
        yield played


async def test_account_is_deleted_in_chunks_that_tell_what_is_left(
    worker: Worker, admin: Admin, account: Account, pool: Pool
) -> None:
    held = [make_unlisted_id(), *(make_id() for _ in range(CONVERSATIONS_AT_ONCE))]
    for conversation_id in held:
        await worker.begin(account, conversation_id)
    await worker.project()
    async with acquire_connection(pool) as conn:  # a row that the log does not have holds nothing up
        await conn.execute(_STRAY, [make_id(), account.id])
    with pytest.raises(Conflict, match=f"still has {len(held) + 1} conversations"):
        await admin_accounts.delete(admin, account.id)

    begun = await admin_accounts.delete(admin, account.id, force=True)
    assert (begun.pending, begun.goes[0].count) == (True, len(held) + 1)
    with pytest.raises(Conflict, match="is being deleted"):
        await admin_accounts.change(admin, account.id, AccountChanges(disabled=False))

    assert await worker.deletions.step()
    left = await admin_accounts.delete(admin, account.id)
    assert (left.pending, left.goes[0].count) == (True, 2)
    shown = await admin_accounts.get(admin, account.id)
    assert (shown.deleting, shown.disabled) == (True, True)

    assert await worker.deletions.step()
    assert not await worker.deletions.step()  # the read model is behind the log: there may be more
    await admin_accounts.get(admin, account.id)
    await worker.project()
    assert not await worker.deletions.step()
    with pytest.raises(NotFound):
        await admin_accounts.get(admin, account.id)
    for conversation_id in held:
        assert (await Log(pool).load_conversation(conversation_id)).erased


async def test_account_that_is_not_to_be_deleted_keeps_all(
    worker: Worker, admin: Admin, account: Account, pool: Pool
) -> None:
    kept = make_id()
    await worker.begin(account, kept)
    await worker.project()
    assert not await worker.deletions.step()
    assert not (await Log(pool).load_conversation(kept)).erased
    assert await admin_accounts.get(admin, account.id) == account


_STRAY = """
INSERT INTO conversations
    (conversation_id, account_id, message_count, created_at, updated_at, listed, events, bytes)
VALUES (%s, %s, 1, '2026', '2026', true, 1, 1)"""
