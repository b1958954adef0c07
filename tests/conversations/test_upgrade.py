"""A database of the release's first step gets what later steps add, and `replay rebuild` fills it."""

import agentchat.directory.migrations
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.migrations import STEPS, migrate
from agentchat.conversations.queries.conversation_search import ConversationSearch, find_conversations
from agentchat.conversations.queries.find_runs import RunFilter, find_runs
from agentchat.runtime import migrations
from agentchat.runtime.postgres import open_pool
from tests.conversations.read_models import Storage

ROWS_OF_BEFORE = """
INSERT INTO conversations (conversation_id, account_id, title, agent_id, message_count, created_at,
                           updated_at, listed, events, bytes)
SELECT originator_id, 'account-1', 'Hello', 'agent-1', 2, '2026-11-21', '2026-11-21', true, 1, 1
  FROM conversation_events WHERE originator_version = 1
"""


async def test_rows_of_before_a_step_are_filled_by_a_rebuild(database_url: str) -> None:
    await agentchat.directory.migrations.migrate(database_url)  # a view of the baseline reads its tables
    async with migrations.open_migration(database_url) as conn:
        await migrations.apply(conn, "conversations", STEPS[:1])
    async with open_pool(database_url) as pool, open_store(database_url) as store:
        storage = Storage(store, Log(pool), pool, database_url)
        await storage.store_conversations(1)
        async with storage.as_owner() as owner:
            await owner.execute(ROWS_OF_BEFORE)
        await migrate(database_url)
        (before,) = (await find_conversations(pool, ConversationSearch(), limit=9)).rows
        assert (before.tokens, before.cost) == (0, 0.0)
        await storage.rebuild()
        assert all(each.ok for each in await storage.verify())
        (after,) = (await find_conversations(pool, ConversationSearch(), limit=9)).rows
        assert after.tokens > 0
        rated = (await find_runs(pool, RunFilter(rating="bad"), limit=9)).rows
        assert [run.rating for run in rated] == [-1.0]
