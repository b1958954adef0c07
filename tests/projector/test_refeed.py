"""Refeeding: EVENTS that was lost, emptied or fed again holds the log in order, whoever feeds it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from bus import Bus, FeedConflict
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.event_store.feed_reader import kept_from, remember_fed
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from ops.errors import RefusedError
from ops.main import app
from ops.replay.feed_command import BATCH as REFEED_BATCH
from ops.replay.feed_command import refeed
from projector.feed_publisher import BATCH, FeedPublisher
from projector.log_follower import LogFollower
from runtime.postgres import Pool
from tests.admin_cli.conftest import SECRET_KEY
from tests.conversations.given import began, turn
from tests.projector.conftest import Streams
from tests.projector.test_feed import feed_all, positions, tell

pytestmark = pytest.mark.requirement("FEED-REBUILD")


async def stored(log: Log, after: int = 0) -> list[int]:
    return [entry.position for entry in await log.read(after, 5000)]


@contextlib.asynccontextmanager
async def leading(feed: FeedPublisher) -> AsyncIterator[None]:
    """A leader that feeds while the block runs."""
    following = asyncio.create_task(LogFollower("feed", feed.step, BATCH).run())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_events_just_published_are_published_again_from_any_position(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    for _ in range(3):
        await tell(store, turns=5)
    feed = FeedPublisher(bus, log, pool)
    await feed_all(feed)
    every = await stored(log)
    told: list[int] = []
    for start in (every[0], every[40], every[-1]):
        assert await refeed(bus, log, start, told.append) == len(await stored(log, start - 1))
        assert await positions(streams) == await stored(log, start - 1)
        assert told[-1] == every[-1]
    await tell(store)
    with pytest.raises(FeedConflict):
        await feed.step()
    await feed_all(feed)  # a leader goes on after what was fed by hand
    assert await positions(streams) == await stored(log, every[-1] - 1)


async def test_refeeding_while_a_leader_feeds_and_appends_go_on(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    for _ in range(10):
        await tell(store, turns=10)
    async with leading(FeedPublisher(bus, log, pool)):
        await streams.grown("EVENTS", 610)

        async def write() -> None:
            for _ in range(20):
                await tell(store)

        writing = asyncio.create_task(write())
        for _ in range(2):
            await refeed(bus, log, 1, lambda _: None)
        await writing
        await streams.grown("EVENTS", 610 + 20 * 7)
    assert await positions(streams) == await stored(log)


async def test_the_command_feeds_from_a_position_of_the_log_and_refuses_any_other(
    bus: Bus,
    store: ConversationStore,
    log: Log,
    streams: Streams,
    migrated_database_url: str,
    fresh_nats_url: str,
) -> None:
    environ = {
        "AGENTCHAT_DATABASE_URL": migrated_database_url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_SECRET_KEY": SECRET_KEY,
    }

    async def feed(*arguments: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, app, ["replay", "feed", *arguments], env=environ)

    empty = await feed("--from", "1")
    assert str(empty.exception) == "there is no position 1: the log is empty"
    await tell(store)
    first, last = (await stored(log))[0], await log.head()
    for start in (0, -3, last + 1):
        refused = await feed("--from", str(start))
        assert isinstance(refused.exception, RefusedError)
        assert refused.exception.exit_code == 2
        assert str(refused.exception) == f"there is no position {start:,}: the log goes from 1 to {last:,}"
    assert (await feed("--from", "first")).exit_code == 2
    assert await streams.count("EVENTS") == 0
    done = await feed("--from", str(first + 2))
    assert done.output.startswith(f"EVENTS holds the log from position {first + 2:,} to {last:,}; 5 events")
    told = await feed("--from", "1", "--json")
    assert json.loads(told.output)["published"] == 7
    assert await positions(streams) == await stored(log)


async def test_a_refeed_that_broke_off_is_resumed_by_the_leader(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    await tell(store, turns=60)
    feed = FeedPublisher(bus, log, pool, look_seconds=0.1)
    await feed_all(feed)

    def break_off(position: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await refeed(bus, log, 1, break_off)
    assert await streams.count("EVENTS") == REFEED_BATCH
    async with leading(feed):
        await streams.grown("EVENTS", 361)
    assert await positions(streams) == await stored(log)


async def test_a_lost_stream_is_filled_again_though_nothing_is_appended(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    await tell(store)
    feed = FeedPublisher(bus, log, pool, look_seconds=0.1)
    await feed_all(feed)
    await streams.delete("EVENTS")
    async with leading(feed):
        await streams.grown("EVENTS", 7)
    assert await positions(streams) == await stored(log)


async def test_a_lost_stream_gets_what_it_would_have_kept_and_nothing_older(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams, migrated_database_url: str
) -> None:
    ends = []
    for _ in range(4):
        await store.append(Conversation(conversation_id=new_id()), [began(), *turn(new_id(), "Hello", "Hi")])
        ends.append(await log.head())
    days = ((90, 0), (31, ends[0]), (20, ends[1]), (2, ends[2]))
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        for ago, position in days:
            await owner.execute(
                "INSERT INTO feed_days VALUES ((now() AT TIME ZONE 'UTC')::date - %s, %s)", [ago, position]
            )
        await owner.execute("INSERT INTO projection_positions VALUES ('events_feed', 1, %s)", [ends[3]])
    await feed_all(FeedPublisher(bus, log, pool))
    assert await positions(streams) == await stored(log, ends[1])
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute("DELETE FROM feed_days WHERE day >= (now() AT TIME ZONE 'UTC')::date - 30")
    assert await kept_from(pool) == ends[-1]  # nothing was fed for long


async def test_the_days_of_the_feed_are_noted_from_its_first(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    await remember_fed(pool, 5)
    await remember_fed(pool, 9)
    assert await kept_from(pool) == 0
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute("UPDATE feed_days SET day = day - 31")
    await remember_fed(pool, 12)
    assert await kept_from(pool) == 9
