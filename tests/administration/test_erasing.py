"""The projector's loops erase accounts' conversations: with them, and by age. The test plays the worker."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from agentchat.administration import Admin, admin_accounts, admin_agents, admin_audit, admin_retention
from agentchat.administration.admin_values import Account, AccountChanges, NewAccount, NewAgent
from agentchat.administration.checked_input import read_json
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events, subjects, wire
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.contracts.messages import EraseAnswered, EraseConversation
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections import conversations_table as threads
from agentchat.conversations.projections import runs_table
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.directory.agent_validation import AgentChanges
from agentchat.projector.delete_users_and_accounts import CONVERSATIONS_AT_ONCE, DeletionStep
from agentchat.projector.retention_step import RetentionStep
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.conversations.given import build_answer, build_run_started, build_user_message
from tests.support.file_folder import OBJECTS

AT = "2026-11-21T09:30:00Z"


class Worker:
    """Erases as an orchestrator does, and follows the log as the projector does."""

    def __init__(self, store: ConversationStore, pool: Pool, bus: Bus) -> None:
        self._store = store
        self.broken = ""
        self._follower = Follower(pool, Log(pool), [threads.PROJECTION, runs_table.PROJECTION])
        self.deletions = DeletionStep(bus, Log(pool), pool, OBJECTS)
        self.retention = RetentionStep(bus, pool)

    async def handle(self, data: bytes) -> bytes:
        command = wire.decode_message(EraseConversation, data)
        assert command.conversation_id != self.broken, "it cannot be read"
        found = await self._store.load(command.conversation_id)
        if found.account_id != command.account_id or found.erased:
            return wire.encode(EraseAnswered(outcome="not_found"))
        erased = events.ConversationErased(trace_id=command.trace_id, at=AT, account_id=command.account_id)
        await self._store.append(found, [erased])
        return wire.encode(EraseAnswered(outcome="erased"))

    async def begin(self, account: Account, conversation_id: str) -> None:
        started = events.ConversationStarted(trace_id="a" * 32, at=AT, account_id=account.id)
        await self._store.append(await self._store.load(conversation_id), [started])

    async def add(self, account: Account, agent_id: str, days: int, *, is_open: bool = False) -> str:
        """Add a conversation with one run, whose messages are so many days old; return its id."""
        word = make_id()
        answered = () if is_open else build_answer("It is on its way.", word)
        stored = (build_user_message(word), build_run_started(word), *answered)
        at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")[:-6] + "Z"
        aged: list[events.Event] = [
            events.ConversationStarted(trace_id="a" * 32, at=at, account_id=account.id)
        ]
        for each in stored:
            mine = replace(each, agent_id=agent_id) if isinstance(each, events.MessageSaved) else each
            aged.append(replace(mine, at=at))
        await self._store.append(Conversation(conversation_id=word), aged)
        return word

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


async def test_a_conversation_that_cannot_be_erased_holds_up_no_other(
    worker: Worker, admin: Admin, account: Account, pool: Pool
) -> None:
    other = await admin_accounts.create(admin, NewAccount(name="Other", plan=account.plan))
    worker.broken, *held = [await worker.add(each, make_id(), 31) for each in (account, account, other)]
    await worker.project()
    for own in (account, other):
        await admin_accounts.change(admin, own.id, AccountChanges(retention_days=30))
    with pytest.raises(BusUnavailable):
        await worker.retention.step()
    assert not (await Log(pool).load_conversation(worker.broken)).erased
    for conversation_id in held:
        assert (await Log(pool).load_conversation(conversation_id)).erased


async def test_conversations_older_than_their_retention_are_deleted(
    worker: Worker, admin: Admin, account: Account, pool: Pool
) -> None:
    new = NewAgent(account_id=account.id, name="Short", model="m", provider_key="offline", retention_days=7)
    agent = await admin_agents.create(admin, new)
    expired = {
        await worker.add(account, make_id(), 31),
        await worker.add(account, make_id(), 400),
        await worker.add(account, agent.id, 8),
    }
    kept = {
        await worker.add(account, make_id(), 29),
        await worker.add(account, make_id(), 40, is_open=True),
        await worker.add(account, agent.id, 6),
        await worker.add(await admin_accounts.create(admin, NewAccount(name="Other")), make_id(), 400),
    }
    await worker.project()
    preview = await admin_retention.get_of_account(admin, account.id, retention_days=30)
    assert preview.conversations == len(expired)
    await admin_accounts.change(admin, account.id, AccountChanges(retention_days=30))
    assert await admin_retention.get_of_account(admin, account.id) == preview
    assert (await admin_retention.get_of_account(admin, account.id, retention_days=28)).conversations == 4
    assert (await admin_retention.get_of_agent(admin, agent.id)).conversations == 1
    assert (await admin_retention.get_of_agent(admin, agent.id, retention_days=5)).conversations == 2

    await worker.retention.step()
    erased = {each for each in expired | kept if (await Log(pool).load_conversation(each)).erased}
    assert erased == expired
    assert (await admin_retention.get_of_account(admin, account.id)).conversations == 0
    assert worker.retention.lag == 0

    await admin_agents.change(admin, agent.id, AgentChanges(retention_days=None))
    noted = [await admin_audit.page(admin, subject=each) for each in (account.id, agent.id)]
    assert [page.items[0].after for page in noted] == [{"retention_days": 30}, {"retention_days": None}]
    assert (await admin_agents.get(admin, agent.id)).version == 1
    rest = await admin_retention.get_of_agent(admin, agent.id)
    assert (rest.retention_days, rest.conversations) == (30, 0)


@pytest.mark.parametrize("days", ["0", "-1", "36501", "1.5", '"30"', "true"])
def test_retention_is_a_number_of_days(days: str) -> None:
    for kind in (NewAccount, AccountChanges, AgentChanges):
        with pytest.raises(Invalid) as refused:
            read_json(kind, f'{{"name": "n", "retention_days": {days}}}'.encode())
        assert refused.value.field == "retention_days"


_STRAY = """
INSERT INTO conversations
    (conversation_id, account_id, message_count, created_at, updated_at, listed, events, bytes)
VALUES (%s, %s, 1, '2026', '2026', true, 1, 1)"""
