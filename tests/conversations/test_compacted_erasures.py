"""Weeks after an erasure its tombstone, seals and costs go, and heads of days and accounts' usage stay."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace

from contracts import events
from contracts.ids import new_id, new_unlisted_id
from conversations.aggregate.conversation import Conversation
from conversations.chain.auditing import Scope, audit
from conversations.chain.day_heads import DayHead, HeadDifference, Leaf, compare, head_of
from conversations.compacted_erasures import (
    KEPT_DAYS,
    LEAVES_KEPT_DAYS,
    compact_erasures,
    drop_compacted_leaves,
    is_compacted,
)
from conversations.database import REBUILD_LOCK
from conversations.erasures import due_erasures, end_pass
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import rebuild
from conversations.projections.usage_table import lines_of
from conversations.queries.month_usage import spent_of
from conversations.transfer import moving
from conversations.transfer.moving import Clash
from projector.erasure import compact
from runtime.postgres import Pool, connection
from tests.conversations import recorded
from tests.conversations.given import ACCOUNT, AT, LATER, began, trace, turn
from tests.conversations.read_models import empty, follow

MONTH = AT[:7]
TODAY = datetime.now(UTC).date()

_FED = """
INSERT INTO projection_positions VALUES ('events_feed', 1, %s)
    ON CONFLICT (name) DO UPDATE SET position = excluded.position
"""


def day(ago: int) -> date:
    return TODAY - timedelta(days=ago)


class Days:
    """Days of the log, each beginning where the log is when it is begun."""

    def __init__(self, url: str, pool: Pool, log: Log, store: ConversationStore) -> None:
        self.url, self._pool, self.log, self._store = url, pool, log, store

    async def begin(self, ago: int) -> None:
        async with await psycopg.AsyncConnection.connect(self.url) as conn:
            await conn.execute("INSERT INTO feed_days VALUES (%s, %s)", [day(ago), await self.log.head()])

    async def chat(self, word: str, *, erased: bool = False) -> Conversation:
        stored = await self._store.append(
            Conversation(conversation_id=new_unlisted_id()), [began(), *turn(word, "Hello", "Hi")]
        )
        return await self.erase(stored) if erased else stored

    async def erase(self, chat: Conversation) -> Conversation:
        tombstone = events.ConversationErased(
            trace_id=trace(f"erase-{chat.version}"), at=LATER, account_id=ACCOUNT, spent=spent_of(chat)
        )
        return await self._store.append(chat, [tombstone])

    async def follow(self) -> None:
        """Read models, feed and the removal of copies come to the log's end, which is a chat of today."""
        await self.chat("today")
        await follow(self._pool, self.log)
        async with connection(self._pool) as conn:
            await conn.execute(_FED, [await self.log.head()])
        while due := await due_erasures(self._pool, limit=100):
            for each in due:
                await end_pass(self._pool, replace(each, passes=1))

    async def heads(self, *ago: int) -> list[tuple[DayHead, list[Leaf]]]:
        return [await head_of(self._pool, self.log, day(each)) for each in ago]


@pytest.fixture
async def days(migrated_database_url: str, pool: Pool, log: Log, store: ConversationStore) -> Days:
    await empty(migrated_database_url)
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as conn:
        await conn.execute("TRUNCATE feed_days, erased_links, compacted_leaves, compacted_usage, erasures")
    return Days(migrated_database_url, pool, log, store)


async def bytes_left(pool: Pool, *chats: Conversation) -> dict[str, int]:
    """What the tables hold of these, without indexes."""
    ids, found = [each.conversation_id for each in chats], {}
    for table, column in (
        ("conversation_events", "originator_id"),
        ("erased_links", "conversation_id"),
        ("usage", "conversation_id"),
    ):
        query = f"SELECT coalesce(sum(pg_column_size({table}.*)), 0) FROM {table} WHERE {column} = ANY(%s)"
        async with connection(pool) as conn:
            row = await (await conn.execute(query, [ids])).fetchone()
        assert row is not None
        found[table] = int(row[0])
    return found


async def test_old_erasures_go_and_the_heads_of_their_days_hold(days: Days, pool: Pool, log: Log) -> None:
    await days.begin(40)
    chats = [await days.chat(f"a-{number}") for number in range(3)]
    kept, at_once = await days.chat("kept"), await days.chat("at-once", erased=True)
    await days.begin(39)
    chats = [await days.erase(each) for each in chats]
    await days.begin(34)
    young = await days.chat("young", erased=True)
    await days.follow()
    heads = await days.heads(40, 39, 34)
    assert [head.conversations for head, _ in heads] == [5, 3, 2]
    before = await lines_of(pool, MONTH)
    assert await compact_erasures(pool, most=2) == 2
    assert await compact_erasures(pool, most=2) == 2
    assert await compact_erasures(pool, most=2) == 0
    assert set((await bytes_left(pool, at_once, *chats)).values()) == {0}
    assert all((await bytes_left(pool, young)).values())
    assert [await compare(pool, log, head, leaves) for head, leaves in heads] == [None] * 3
    assert await days.heads(40, 39, 34) == heads
    assert await lines_of(pool, MONTH) == before
    found = await audit(pool, log, Scope(last=await log.head()))
    assert not found.broken
    assert [each.conversation_id for each in found.erased] == [young.conversation_id]
    assert [entry.version for entry in await log.rows(kept.conversation_id)] == [*range(1, kept.version + 1)]


async def test_what_is_left_of_a_hundred_chats_is_less_than_90_bytes_each(days: Days, pool: Pool) -> None:
    await days.begin(40)
    chats = [await days.chat(f"h-{number}") for number in range(100)]
    await days.begin(39)
    chats = [await days.erase(each) for each in chats]
    await days.begin(34)
    await days.follow()
    before = sum((await bytes_left(pool, *chats)).values())
    assert before > 100 * 1000
    assert await compact_erasures(pool) == 100
    columns = ("conversation_ids", "positions", "packed_seals", "seals")
    sizes = " + ".join(f"coalesce(sum(pg_column_size({column})), 0)" for column in columns)
    async with connection(pool) as conn:
        leaves = await (await conn.execute(f"SELECT {sizes} FROM compacted_leaves")).fetchone()
        query = "SELECT sum(pg_column_size(compacted_usage.*)), sum(runs) FROM compacted_usage"
        usage = await (await conn.execute(query)).fetchone()
    assert leaves is not None
    assert usage is not None
    assert usage[1] == 100
    assert leaves[0] + usage[0] < 100 * 90


async def test_leaves_of_the_release_before_are_read_and_dropped_next_to_those_of_now(
    days: Days, pool: Pool, log: Log
) -> None:
    """The first row is as 0.9.0 has stored it."""
    await days.begin(402)
    chats = [await days.chat(f"b-{number}") for number in range(3)]
    await days.begin(401)
    chats = [await days.erase(each) for each in chats]
    await days.begin(34)
    await days.follow()
    heads = await days.heads(402, 401)
    assert [await compact_erasures(pool, most=1) for _ in range(2)] == [1, 1]
    async with await psycopg.AsyncConnection.connect(days.url) as owner:
        await owner.execute(
            "UPDATE compacted_leaves SET packed_seals = NULL, seals ="
            " (SELECT seals FROM compacted_erasures v WHERE v.last_position = compacted_leaves.last_position)"
            " WHERE last_position = (SELECT min(last_position) FROM compacted_leaves)"
        )
    assert await compact_erasures(pool) == 1
    assert [await compare(pool, log, head, leaves) for head, leaves in heads] == [None] * 2
    assert all([await is_compacted(pool, each.conversation_id) for each in chats])
    await drop_compacted_leaves(pool)
    assert not any([await is_compacted(pool, each.conversation_id) for each in chats])


async def test_a_head_that_was_taken_within_a_day_says_why_it_cannot_be_compared(
    days: Days, pool: Pool, log: Log
) -> None:
    await days.begin(40)
    chat = await days.chat("within")
    (within,) = await days.heads(40)
    await days.erase(chat)
    await days.begin(34)
    await days.follow()
    assert await compare(pool, log, *within) is None
    assert await compact_erasures(pool) == 1
    found = await compare(pool, log, *within)
    assert found is not None
    assert "taken within a day" in found.reason
    assert found.conversations == ()


async def test_what_compaction_left_goes_after_400_days_and_heads_with_leaves_still_hold(
    days: Days, pool: Pool, log: Log
) -> None:
    await days.begin(402)
    old, kept = await days.chat("old", erased=True), await days.chat("kept")
    await days.begin(400)
    await days.chat("within", erased=True)
    await days.begin(34)
    await days.follow()
    heads = await days.heads(402, 400)
    assert [await compact_erasures(pool, most=1) for _ in range(3)] == [1, 1, 0]
    assert await is_compacted(pool, old.conversation_id)
    assert await compact(pool) == 0
    assert not await is_compacted(pool, old.conversation_id)
    assert await drop_compacted_leaves(pool) == 0
    assert not (await audit(pool, log, Scope(last=await log.head()))).broken

    async def compared(head: DayHead, leaves: list[Leaf]) -> HeadDifference | None:
        before = day(LEAVES_KEPT_DAYS)
        return await compare(pool, log, head, leaves, dropped_before=before)

    (head, leaves), within = heads
    assert await compared(*within) is None
    for given, reason in ((leaves, "OK: 1 of its 2 leaves"), ([], "not compared, without its leaves")):
        found = await compared(head, given)
        assert found is not None
        assert (found.changed, found.conversations) == (False, ())
        assert found.reason.startswith(reason)
    forged = [replace(leaf, seal="00" * 32) for leaf in leaves]
    found = await compared(head, forged)
    assert found is not None
    assert (found.changed, found.conversations) == (True, (kept.conversation_id,))
    assert (found := await compare(pool, log, head, leaves)) is not None
    assert found.changed, "of a day that is not as old, everything is compared"


async def test_a_compacted_row_that_was_changed_is_found(
    days: Days, pool: Pool, log: Log, migrated_database_url: str
) -> None:
    await days.begin(40)
    chat = await days.chat("forged", erased=True)
    await days.begin(34)
    await days.follow()
    ((head, leaves),) = await days.heads(40)
    assert await compact_erasures(pool) == 1
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as conn:
        await conn.execute("UPDATE compacted_erasures SET conversation_ids = ARRAY[gen_random_uuid()]")
    found = await compare(pool, log, head, leaves)
    assert found is not None
    assert chat.conversation_id in found.conversations


@pytest.mark.parametrize("waits_for", ["copies", "rows", "parked", "read model", "feed", "rebuild", "days"])
async def test_an_erasure_that_somebody_still_needs_stays(days: Days, pool: Pool, waits_for: str) -> None:
    await days.begin(40)
    chat = await days.chat(f"waits-{waits_for}", erased=True)
    await days.begin(34)
    await days.follow()
    change = {
        "copies": "INSERT INTO erasures VALUES (%(id)s, 1, '{}', '{}')",
        "rows": "INSERT INTO unfinished_erasures (conversation_id, version, position, below)"
        " VALUES (%(id)s, 9, 9, 5)",
        "parked": "INSERT INTO parked_events (projection, position, conversation_id, reason)"
        " VALUES ('usage', 1, %(id)s, 'unreadable')",
        "read model": "UPDATE projection_positions SET position = 1 WHERE name = 'tools'",
        "feed": "UPDATE projection_positions SET position = 1 WHERE name = 'events_feed'",
        "rebuild": "INSERT INTO projection_positions VALUES ('usage@rebuilding', 1, 0)",
        "days": "UPDATE feed_days SET day = day + 10",
    }[waits_for]
    async with await psycopg.AsyncConnection.connect(days.url) as owner:
        await owner.execute(change, {"id": chat.conversation_id})
        await owner.commit()
        assert await compact_erasures(pool) == 0
        for table in ("erasures", "unfinished_erasures", "parked_events"):
            await owner.execute(f"DELETE FROM {table}")
        await owner.execute("DELETE FROM projection_positions WHERE name LIKE '%@%'")
    await days.follow()
    if waits_for != "days":
        assert await compact_erasures(pool) == 1


async def test_none_goes_while_usage_is_rebuilt(days: Days, pool: Pool) -> None:
    await days.begin(40)
    await days.chat("rebuilt", erased=True)
    await days.begin(34)
    await days.follow()
    async with connection(pool) as conn, conn.transaction():
        await conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext('usage@verifying'))", [REBUILD_LOCK])
        assert await compact_erasures(pool) == 0
    assert await compact_erasures(pool) == 1
    before = await lines_of(pool, MONTH)
    await rebuild(pool, days.log, PROJECTIONS)
    assert await lines_of(pool, MONTH) == before


async def test_two_that_compact_at_once_count_nothing_twice(days: Days, pool: Pool) -> None:
    await days.begin(40)
    for number in range(4):
        await days.chat(f"two-{number}", erased=True)
    await days.begin(34)
    await days.follow()
    before = await lines_of(pool, MONTH)
    done = await asyncio.gather(*(compact_erasures(pool, most=3) for _ in range(4)))
    while more := await compact_erasures(pool, most=3):
        done.append(more)
    assert sum(done) == 4
    assert await lines_of(pool, MONTH) == before


async def test_what_was_erased_here_is_not_imported(days: Days, pool: Pool, store: ConversationStore) -> None:
    await days.begin(40)
    carried = recorded.carried("shop")
    await moving.bring(store, carried, await moving.planned(pool, carried))
    chat = await store.load(carried.conversation_id)
    await days.erase(chat)
    await days.begin(34)
    await days.follow()
    assert not await is_compacted(pool, carried.conversation_id)
    assert await compact_erasures(pool) == 1
    assert await is_compacted(pool, carried.conversation_id)
    assert not await is_compacted(pool, new_id())
    with pytest.raises(Clash, match="was erased here"):
        await moving.planned(pool, carried)


async def test_nobody_shortens_the_time(days: Days, pool: Pool) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="35 days"):
        await compact_erasures(pool, kept_days=KEPT_DAYS - 1)
    with pytest.raises(psycopg.errors.CheckViolation, match="400 days"):
        await drop_compacted_leaves(pool, kept_days=LEAVES_KEPT_DAYS - 1)
