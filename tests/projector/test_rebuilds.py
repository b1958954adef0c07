"""A projector of another version than the tables: it brings them up to its own next to the live ones."""

import asyncio

import pytest

from contracts import events
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.projections.follower import Follower
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import alone
from projector.rebuilds import Rebuilds
from runtime.postgres import Pool, connection
from tests.conversations.given import asked, began, started, turn
from tests.conversations.test_approvals import called, elicitation

pytestmark = pytest.mark.requirement("REBUILD")


async def told(store: ConversationStore, word: str) -> None:
    await store.append(Conversation(conversation_id=new_id()), [began(), *turn(word, "Hello", "Hi")])


async def followed(follower: Follower) -> None:
    while await follower.step():
        pass


async def of_an_older_version(pool: Pool) -> None:
    async with connection(pool) as conn:
        await conn.execute("UPDATE messages SET content = 'as it was'")
        await conn.execute("UPDATE projection_positions SET version = 0 WHERE name = 'messages'")


async def texts(pool: Pool) -> list[str]:
    async with connection(pool) as conn:
        rows = await (await conn.execute("SELECT content FROM messages ORDER BY position")).fetchall()
    return [content for (content,) in rows]


async def counted(pool: Pool) -> int:
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT sum(message_count) FROM conversations")).fetchone()
    assert row is not None
    return int(row[0])


async def test_it_is_built_again_behind_the_live_one_while_the_others_go_on(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    await told(store, "a")
    await followed(Follower(pool, log, PROJECTIONS))
    await of_an_older_version(pool)
    follower = Follower(pool, log, PROJECTIONS, reset=False)
    await told(store, "b")
    await followed(follower)
    assert await texts(pool) == ["as it was", "as it was"]  # it serves, and waits
    assert await counted(pool) == 4
    await Rebuilds(migrated_database_url, pool, PROJECTIONS, follower.look_again).run()
    assert await texts(pool) == ["Hello", "Hi"] * 2
    await told(store, "c")
    await followed(follower)
    assert await texts(pool) == ["Hello", "Hi"] * 3
    assert await counted(pool) == 6


async def test_tables_that_were_never_filled_are_built_too(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    await told(store, "a")
    follower = Follower(pool, log, PROJECTIONS, reset=False)
    assert await follower.step() == 0
    await Rebuilds(migrated_database_url, pool, PROJECTIONS, follower.look_again).run()
    assert await texts(pool) == ["Hello", "Hi"]


async def test_while_another_process_builds_it_waits(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    await told(store, "a")
    await followed(Follower(pool, log, PROJECTIONS))
    await of_an_older_version(pool)
    looked = asyncio.Event()
    rebuilds = Rebuilds(migrated_database_url, pool, PROJECTIONS, looked.set)
    async with alone(pool, "rebuilding", PROJECTIONS):
        running = asyncio.create_task(rebuilds.run())
        refused = asyncio.create_task(looked.wait())
        await asyncio.wait((running, refused), return_when=asyncio.FIRST_COMPLETED)
        assert not running.done()
        assert await texts(pool) == ["as it was", "as it was"]
    await running
    assert await texts(pool) == ["Hello", "Hi"]


@pytest.mark.requirement("EVENTS-NEWER")
async def test_what_an_earlier_release_parked_or_wrote_in_part_of_a_tools_question_is_built_again(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    asks = events.InputAsked(message="Why?", name="cancel_order", input={"order_id": "ORD-1"}, key="a")
    thread = Conversation(conversation_id=new_id())
    await store.append(thread, [began(), asked(), started(), *called(), elicitation(asks)])
    await followed(Follower(pool, log, PROJECTIONS))
    whole = await approvals(pool)
    assert [row[:2] for row in whole] == [("cancel_order", "pending")]
    async with connection(pool) as conn:
        await conn.execute("UPDATE approvals SET name = NULL, call_id = 'c2'")
        await conn.execute(
            "INSERT INTO parked_events (projection, position, conversation_id, reason)"
            " VALUES ('approvals', 1, 'c', 'unknown')"
        )
        await conn.execute("UPDATE projection_positions SET version = 1 WHERE name = 'approvals'")
    await Rebuilds(migrated_database_url, pool, PROJECTIONS, lambda: None).run()
    assert await approvals(pool) == whole
    async with connection(pool) as conn:
        assert await (await conn.execute("SELECT * FROM parked_events")).fetchall() == []


async def approvals(pool: Pool) -> list[tuple[str, ...]]:
    async with connection(pool) as conn:
        return await (await conn.execute("SELECT name, status, call_id, input FROM approvals")).fetchall()
