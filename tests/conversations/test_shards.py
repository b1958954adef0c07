"""Read models shared by shards of accounts: each event is applied once, in the order of its account."""

import asyncio
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
import pytest
from msgspec.structs import replace

from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.database import LEADER_LOCK
from conversations.errors import RebuildUnderWay
from conversations.projections import follower as follower_module
from conversations.projections import messages_table
from conversations.projections.conversations_table import is_behind
from conversations.projections.follower import Follower
from conversations.projections.log_cursors import LogCursor, regrouped
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.shards import (
    ALL_SHARDS,
    SHARDS,
    give_back,
    note_positions,
    shard_of,
    take_over,
)
from conversations.queries.month_usage import month_of, spent_of
from conversations.queries.spent_by_runs import spent_by_runs
from runtime.postgres import connection
from tests.conversations.given import LATER, began, described, turn
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("emptied")

VERSIONS = {each.name: each.version for each in PROJECTIONS}
_numbers = count()


def account_in(shard: int) -> str:
    return next(name for each in count() if shard_of(name := f"account-{each}") == shard)


async def thread_of(storage: Storage, account_id: str, turns: int = 1) -> Conversation:
    begun = replace(began(), account_id=account_id)
    words = [f"w{next(_numbers)}" for _ in range(turns)]
    more = [event for word in words for event in (*turn(word, "Hello", "Hi"), *described(3))]
    return await storage.store.append(Conversation(conversation_id=new_id()), [begun, *more])


def follower(storage: Storage, shards: frozenset[int] = ALL_SHARDS, batch: int = 500) -> Follower:
    return Follower(storage.pool, storage.log, PROJECTIONS, shards=shards, batch=batch, reset=False)


async def to_the_end(*followers: Follower) -> None:
    while any([await each.step() for each in followers]):
        pass


async def positions(storage: Storage) -> dict[int, int]:
    return dict(await storage.rows("SELECT shard, position FROM read_model_positions WHERE name = 'runs'"))


def test_an_account_stays_in_its_shard_and_the_shards_are_about_equal() -> None:
    assert [shard_of(each) for each in ("account-1", "3f2c", "ü")] == [0, 2, 5]
    counts = [0] * SHARDS
    for number in range(16_000):
        counts[shard_of(f"account-{number}")] += 1
    assert min(counts) > 900


async def test_followers_that_hand_shards_over_at_any_time_apply_each_event_once_and_in_order(
    storage: Storage,
) -> None:
    dice = random.Random(7)
    await storage.follow()
    several = [follower(storage, frozenset(), batch=dice.choice((3, 20, 500))) for _ in range(3)]
    threads = []
    for _ in range(12):
        for _ in range(dice.randrange(4)):
            thread = await thread_of(storage, f"account-{dice.randrange(40)}")
            threads.append(thread.conversation_id)
        held: list[set[int]] = [set(), set(), set()]
        for shard in ALL_SHARDS:
            held[dice.randrange(3)].add(shard)
        # Sometimes two believe to hold the same ones, and work at the same time.
        held[0] |= {*dice.sample(range(SHARDS), 4)} if dice.random() < 0.5 else set()
        for one, own in zip(several, held, strict=True):
            await one.hold(own)
        await asyncio.gather(*(one.step() for one in several for _ in range(dice.randrange(3))))
    for one in several[1:]:
        await one.hold(())
    await several[0].hold(ALL_SHARDS)
    await to_the_end(several[0])
    assert all(one.ok and one.parked == () for one in await storage.verify())
    listed = await storage.rows("SELECT conversation_id, message_count, given_title FROM conversations")
    assert sorted(listed) == sorted((each, 2, "title 2") for each in threads)


async def test_read_models_that_another_process_has_built_are_followed_in_all_shards(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "LOOK_SECONDS", 0.0)
    several = follower(storage, frozenset(range(8))), follower(storage, ALL_SHARDS - frozenset(range(8)))
    threads = [await thread_of(storage, account_in(shard)) for shard in range(SHARDS)]
    await to_the_end(*several)
    assert await storage.rows("SELECT count(*) FROM runs") == [(0,)]  # nobody has filled them
    await storage.rebuild()
    threads += [await thread_of(storage, account_in(shard)) for shard in range(SHARDS)]
    await to_the_end(*several)
    assert await storage.rows("SELECT count(*) FROM runs") == [(len(threads),)]


async def cursors(storage: Storage) -> list[list[int]]:
    """The shards of each, all of which have all read models."""
    rows = await storage.rows("SELECT shards, versions FROM projection_cursors ORDER BY shards")
    assert all(versions == VERSIONS for _, versions in rows)
    return [shards for shards, _ in rows]


async def test_what_one_process_holds_is_one_cursor_also_after_a_swap(storage: Storage) -> None:
    await storage.follow()
    first, second = follower(storage), follower(storage)
    for shards in (5, 12):
        await first.hold(range(shards))
        await second.hold(range(shards, SHARDS))
        await thread_of(storage, account_in(3))
        await to_the_end(first, second)
        assert await cursors(storage) == [[*range(shards)], [*range(shards, SHARDS)]]
    await thread_of(storage, account_in(4))
    await storage.rebuild([messages_table.PROJECTION])
    await first.hold(ALL_SHARDS)
    await to_the_end(first)
    assert await cursors(storage) == [[*range(SHARDS)]]
    assert set((await positions(storage)).values()) == {await storage.log.head()}


async def test_who_lost_one_of_its_shards_applies_nothing_until_it_has_looked(storage: Storage) -> None:
    await storage.follow()
    stale = follower(storage)
    await to_the_end(stale)
    for shard in (3, 4):
        await thread_of(storage, account_in(shard))
    await to_the_end(follower(storage, frozenset({3})))
    assert await stale.step() > 0
    listed = "SELECT account_id, message_count FROM conversations ORDER BY account_id"
    assert await storage.rows(listed) == [(account_in(3), 2)]
    await to_the_end(stale)
    assert await storage.rows(listed) == sorted((account_in(shard), 2) for shard in (3, 4))


def test_cursors_are_parted_by_shard_and_version_and_merged_by_position() -> None:
    def at(position: int, shards: Iterable[int], **versions: int) -> LogCursor:
        return LogCursor(versions, frozenset(shards), position)

    stored = [at(7, range(16), runs=1, usage=2), at(7, range(9), messages=3), at(9, (1,), tools=1)]
    versions = {"runs": 1, "usage": 1, "messages": 3, "tools": 1}
    claimed, others = regrouped(stored, frozenset((0, 1, 12)), versions)
    assert claimed == [
        at(7, (0, 1), runs=1, messages=3),
        at(7, (0, 1, 12), usage=2),  # of another version
        at(7, (12,), runs=1),
        at(9, (1,), tools=1),
    ]
    left = frozenset(range(16)) - {0, 1, 12}
    assert others == [at(7, left, runs=1, usage=2), at(7, left & {*range(9)}, messages=3)]


async def test_a_shard_that_lags_catches_up_and_joins_the_others(storage: Storage) -> None:
    await storage.follow()
    for shard in range(SHARDS):
        await thread_of(storage, account_in(shard))
    await to_the_end(follower(storage, ALL_SHARDS - {0, 15}))
    end = await storage.log.head()
    assert {place for shard, place in (await positions(storage)).items() if shard in (0, 15)} == {0}
    await thread_of(storage, account_in(15))
    one = follower(storage, batch=40)
    while min((await positions(storage)).values()) < end:
        assert await one.step() >= 40  # there is more, whatever the others have found
    await to_the_end(one)
    assert set((await positions(storage)).values()) == {await storage.log.head()}
    assert all(each.ok for each in await storage.verify())
    # A swap leaves the settled position, which may be beyond the last event.
    await to_the_end(follower(storage, frozenset({1})))  # which has a cursor of its own from now on
    await storage.rows(
        "UPDATE projection_cursors SET position = position + 3 WHERE shards = '{1}' RETURNING 1"
    )
    await to_the_end(follower(storage))
    assert set((await positions(storage)).values()) == {await storage.log.head() + 3}


async def test_read_models_are_proved_and_built_again_with_shards_at_several_positions(
    storage: Storage,
) -> None:
    await storage.follow()
    threads = [await thread_of(storage, account_in(shard)) for shard in range(SHARDS)]
    await to_the_end(follower(storage, frozenset(range(5))))
    threads += [await thread_of(storage, account_in(shard)) for shard in range(SHARDS)]
    await to_the_end(follower(storage, frozenset(range(3, 9))))
    assert len(set((await positions(storage)).values())) == 3
    assert [one.difference for one in await storage.verify()] == [None] * len(PROJECTIONS)
    await storage.rebuild([messages_table.PROJECTION], batch=30)
    assert [one.difference for one in await storage.verify()] == [None] * len(PROJECTIONS)
    await to_the_end(follower(storage))
    assert all(one.ok for one in await storage.verify())
    assert await storage.rows("SELECT count(*) FROM messages") == [(2 * len(threads),)]
    assert await storage.rows("SELECT DISTINCT message_count FROM conversations") == [(2,)]


async def test_readers_use_the_position_of_the_accounts_shard(storage: Storage) -> None:
    await storage.follow()
    account_id = account_in(3)
    thread = await thread_of(storage, account_id, turns=2)
    await to_the_end(follower(storage, frozenset({3})))
    spent = await spent_by_runs(storage.pool, storage.log, thread.conversation_id, account_id)
    assert spent == spent_of(thread)
    async with connection(storage.pool) as conn:
        assert await is_behind(conn, await storage.log.head())
    await storage.store.append(thread, turn("late", "Hello", "Hi"))
    other = await thread_of(storage, account_in(4))
    await to_the_end(follower(storage, ALL_SHARDS - {3}))
    for one in (account_id, other.account_id or ""):
        month = await month_of(storage.pool, one)
        ended = 3 if one == account_id else 1
        assert (month.tokens == ended * 15) == (month.month == LATER[:7])


@contextmanager
def led_by_0_9_0(storage: Storage) -> Iterator[psycopg.Connection]:
    with psycopg.connect(storage.url, autocommit=True) as session:
        assert session.execute("SELECT pg_try_advisory_lock(%s)", [LEADER_LOCK]).fetchone() == (True,)
        yield session
        session.execute("SELECT pg_advisory_unlock(%s)", [LEADER_LOCK])  # its end comes after ours


_ADVANCED_BY_0_9_0 = """
UPDATE projection_positions SET position = position + 1
 WHERE name = 'runs' AND version = 1 AND position = %s
"""


async def test_a_projector_of_0_9_0_and_one_of_this_release_never_move_a_position_together(
    storage: Storage,
) -> None:
    await thread_of(storage, account_in(1))
    await storage.follow()
    async with connection(storage.pool) as conn:
        async with conn.transaction():
            await give_back(conn)
        end = await storage.log.head()
        given = await storage.rows("SELECT version, position FROM projection_positions WHERE name = 'runs'")
        assert given == [(1, end)]  # as 0.9.0 has it
        assert await storage.rows("SELECT count(*) FROM projection_cursors") == [(0,)]
    thread = await thread_of(storage, account_in(2))
    one = follower(storage)
    with led_by_0_9_0(storage) as session:
        assert await one.step() == 0
        with pytest.raises(RebuildUnderWay, match=r"0\.9\.0"):
            await storage.rebuild([messages_table.PROJECTION])
        assert session.execute(_ADVANCED_BY_0_9_0, [end]).rowcount == 1
        assert set((await positions(storage)).values()) == {end + 1}
        session.execute("UPDATE projection_positions SET position = %s WHERE name = 'runs'", [end])
    await to_the_end(one)
    assert set((await positions(storage)).values()) == {await storage.log.head()}
    with psycopg.connect(storage.url) as session:
        assert session.execute(_ADVANCED_BY_0_9_0, [end]).rowcount == 0
    assert await storage.rows("SELECT title FROM conversations") == [("Hello",)] * 2
    spent = await spent_by_runs(storage.pool, storage.log, thread.conversation_id, account_in(2))
    assert spent == spent_of(thread)


async def test_what_is_not_at_one_position_is_not_given_back_and_0_9_0_does_not_follow_it(
    storage: Storage,
) -> None:
    await storage.follow()
    await thread_of(storage, account_in(1))
    await to_the_end(follower(storage, frozenset({1})))
    async with connection(storage.pool) as conn:
        await note_positions(conn)
        async with conn.transaction():
            await give_back(conn)
    assert await storage.rows("SELECT DISTINCT version, position FROM projection_positions") == [(0, 0)]
    stale = follower(storage, frozenset({2}))
    await thread_of(storage, account_in(2))
    await stale.step()
    await thread_of(storage, account_in(2))
    async with await psycopg.AsyncConnection.connect(storage.url) as owner:
        # 0.9.0 built them again, and follows them.
        await owner.execute("UPDATE projection_positions SET version = 1, position = 1 WHERE name = 'runs'")
    rows = await storage.rows("SELECT count(*) FROM runs")
    await stale.step()
    assert await storage.rows("SELECT count(*) FROM runs") == rows
    assert set((await positions(storage)).values()) >= {1}


async def test_several_take_the_positions_over_once(storage: Storage) -> None:
    await thread_of(storage, account_in(1))
    await storage.follow()
    async with connection(storage.pool) as conn, conn.transaction():
        await give_back(conn)
    async with connection(storage.pool) as first, connection(storage.pool) as second:
        async with first.transaction():
            assert await take_over(first)
            taking = asyncio.create_task(_taken(second))
            await asyncio.sleep(0.05)
            await first.execute("UPDATE projection_cursors SET position = position + 5")
        assert await taking
    assert set((await positions(storage)).values()) == {await storage.log.head() + 5}


async def _taken(conn: psycopg.AsyncConnection[tuple[object, ...]]) -> bool:
    async with conn.transaction():
        return await take_over(conn)
