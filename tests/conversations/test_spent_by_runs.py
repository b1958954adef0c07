"""What a conversation's runs cost, out of the read model and the log, and merged where they are many."""

import pytest
from msgspec.structs import replace

from contracts.events import ConversationErased
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation, evolve_all
from conversations.aggregate.run_usage import MAX_SPENT, spent_of
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.projections.follower import Follower
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.usage_table import lines_of
from conversations.projections.verifying import verify
from conversations.queries.spent_by_runs import spent_by_runs
from runtime.postgres import Pool, connection
from tests.conversations.given import ACCOUNT, LATER, asked, began, failed, started, trace, turn

pytestmark = pytest.mark.requirement("ERASE-PIECES")

MONTH = LATER[:7]


async def follow(pool: Pool, log: Log) -> None:
    follower = Follower(pool, log, PROJECTIONS)
    while await follower.step():
        pass


async def rows_in(pool: Pool, table: str, conversation_id: str) -> int:
    async with connection(pool) as conn:
        query = f"SELECT count(*) FROM {table} WHERE conversation_id = %s"
        row = await (await conn.execute(query.encode(), [conversation_id])).fetchone()
    assert row is not None
    return int(row[0])


async def test_it_is_what_the_fold_says_wherever_the_read_model_is(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    first = [began(), *turn("s-a", "Hello", "Hi"), asked("s-b"), started("s-b")]
    thread = await store.append(Conversation(conversation_id=new_id()), first)
    for follows in (False, True):
        if follows:
            await follow(pool, log)
        assert await spent_by_runs(pool, log, thread.conversation_id, ACCOUNT) == spent_of(thread)
        word = f"s-later-{follows}"
        thread = await store.append(thread, [failed("s-b")] if not follows else turn(word, "Hello", "Hi"))
        assert await spent_by_runs(pool, log, thread.conversation_id, ACCOUNT) == spent_of(thread)
    assert len(spent_of(thread)) == 3


async def test_many_runs_are_few_entries_and_the_tokens_are_counted_the_same(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    thread = await store.append(Conversation(conversation_id=new_id()), [began()])
    for first in range(0, MAX_SPENT + 100, 100):
        words = range(first, first + 100)
        thread = await store.append(
            thread, [each for word in words for each in turn(f"m-{word}", "Hello", "Hi")]
        )
    await follow(pool, log)
    thread = await store.append(thread, [*turn("m-late", "Hello", "Hi"), asked("m-bad"), started("m-bad")])
    thread = await store.append(thread, [failed("m-bad")])
    before = await lines_of(pool, MONTH, ACCOUNT)
    spent = await spent_by_runs(pool, log, thread.conversation_id, ACCOUNT)
    apart = spent_of(evolve_all(thread, ()))
    assert len(apart) == MAX_SPENT + 102
    assert sum(each.runs for each in spent) == len(apart)
    assert sum(each.usage.total for each in spent) == sum(each.usage.total for each in apart)
    assert len(spent) < 10
    await follow(pool, log)
    whole = await lines_of(pool, MONTH, ACCOUNT)
    erased = ConversationErased(trace_id=trace("erase"), at=LATER, account_id=ACCOUNT, spent=spent)
    await store.append(thread, [erased])
    await follow(pool, log)
    after = await lines_of(pool, MONTH, ACCOUNT)
    assert sum(each.total for each in after) == sum(each.total for each in whole)
    assert sum(each.total for each in whole) > sum(each.total for each in before)
    assert await rows_in(pool, "usage", thread.conversation_id) == len(spent)
    for table in ("messages", "runs", "tools"):
        assert await rows_in(pool, table, thread.conversation_id) == 0
    assert [each.difference for each in await verify(pool, log, PROJECTIONS)] == [None] * len(PROJECTIONS)


async def test_of_a_few_runs_each_stays_apart_after_the_erasure(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    thread = await store.append(
        Conversation(conversation_id=new_id()),
        [began(), *turn("k-a", "Hello", "Hi"), *turn("k-b", "Hello", "Hi")],
    )
    for first in range(0, 1000, 500):  # so many events that they are deleted in pieces
        described = [replace(asked(f"k-{first}-{number}"), role="assistant") for number in range(500)]
        thread = await store.append(thread, described)
    await follow(pool, log)
    assert await rows_in(pool, "messages", thread.conversation_id) == 1004
    spent = spent_of(thread)
    await store.append(
        thread, [ConversationErased(trace_id=trace("k"), at=LATER, account_id=ACCOUNT, spent=spent)]
    )
    await follow(pool, log)
    assert await rows_in(pool, "messages", thread.conversation_id) == 0
    assert await rows_in(pool, "usage", thread.conversation_id) == 2
