"""Refeeding: EVENTS that was lost, emptied or fed again holds the log in order, whoever feeds it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from agentchat.bus.errors import FeedConflict
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.feed_reader import find_kept_position
from agentchat.ops.errors import RefusedError
from agentchat.ops.main import app
from agentchat.ops.repair_command import LEFT_OUT
from agentchat.ops.replay.feed_command import BATCH as REFEED_BATCH
from agentchat.ops.replay.feed_command import refeed
from agentchat.projector.feed_publisher import FeedPublisher
from agentchat.projector.follower_loop import LogFollower
from tests.admin_cli.conftest import SECRET_KEY
from tests.conversations.given import build_conversation_started, turn
from tests.projector.conftest import World
from tests.projector.test_feed import tell


async def store_events(world: World, after: int = 0) -> list[int]:
    return [entry.position for entry in await world.log.read(after, 5000)]


@contextlib.asynccontextmanager
async def lead(feed: FeedPublisher) -> AsyncIterator[None]:
    """Lead, and feed EVENTS, while the block runs."""
    following = asyncio.create_task(LogFollower("feed", feed.step).run())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_events_just_published_are_published_again_from_any_position(world: World) -> None:
    for _ in range(3):
        await tell(world, turns=5)
    feed = world.build_publisher()
    await world.feed_all(feed)
    every = await store_events(world)
    told: list[int] = []
    for start in (every[0], every[40], every[-1]):
        assert await refeed(world.bus, world.log, start, told.append) == len(
            await store_events(world, start - 1)
        )
        assert await world.list_positions() == await store_events(world, start - 1)
        assert told[-1] == every[-1]
    await tell(world)
    with pytest.raises(FeedConflict):
        await feed.step()
    await world.feed_all(feed)  # a leader goes on after what was fed by hand
    assert await world.list_positions() == await store_events(world, every[-1] - 1)


@pytest.mark.slow
async def test_refeeding_while_a_leader_feeds_and_appends_go_on(world: World) -> None:
    for _ in range(10):
        await tell(world, turns=10)
    async with lead(world.build_publisher()):
        await world.streams.wait_until_grown("EVENTS", 610)

        async def write() -> None:
            for _ in range(20):
                await tell(world)

        writing = asyncio.create_task(write())
        for _ in range(2):
            await refeed(world.bus, world.log, 1, lambda _: None)
        await writing
        await world.streams.wait_until_grown("EVENTS", 610 + 20 * 7)
    assert await world.list_positions() == await store_events(world)


async def test_refeed_command_refuses_positions_outside_the_log(world: World, fresh_nats_url: str) -> None:
    environ = {
        "AGENTCHAT_DATABASE_URL": world.url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_SECRET_KEY": SECRET_KEY,
    }

    async def feed(*arguments: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, app, ["replay", "feed", *arguments], env=environ)

    empty = await feed("--from", "1")
    assert str(empty.exception) == "there is no position 1: the log is empty"
    await tell(world)
    first, last = (await store_events(world))[0], await world.log.read_head()
    for start in (0, -3, last + 1):
        refused = await feed("--from", str(start))
        assert isinstance(refused.exception, RefusedError)
        assert refused.exception.exit_code == 2
        assert str(refused.exception) == f"there is no position {start:,}: the log goes from 1 to {last:,}"
    assert (await feed("--from", "first")).exit_code == 2
    assert await world.streams.count("EVENTS") == 0
    done = await feed("--from", str(first + 2))
    assert done.output.startswith(f"EVENTS now has positions {first + 2:,} to {last:,}; published 5 events")
    told = await feed("--from", "1", "--json")
    assert json.loads(told.output)["published"] == 7
    assert await world.list_positions() == await store_events(world)


async def test_repair_skips_positions_that_consumers_have_seen(world: World, fresh_nats_url: str) -> None:
    await tell(world)
    await world.feed_all(world.build_publisher())
    head = await world.log.read_head()
    environ = {
        "AGENTCHAT_DATABASE_URL": world.url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_SECRET_KEY": SECRET_KEY,
    }
    arguments = ["repair", "--json", "--seen", str(head + 5)]
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environ)
    assert json.loads(done.output) == {"next_position": head + LEFT_OUT + 6, "lost": None}
    await tell(world)
    assert (await store_events(world, head))[0] == head + LEFT_OUT + 6


async def test_a_refeed_that_broke_off_is_resumed_by_the_leader(world: World) -> None:
    await tell(world, turns=60)
    feed = FeedPublisher(world.bus, world.log, world.pool, look_seconds=0.1)
    await world.feed_all(feed)

    def break_off(position: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await refeed(world.bus, world.log, 1, break_off)
    assert await world.streams.count("EVENTS") == REFEED_BATCH
    async with lead(feed):
        await world.streams.wait_until_grown("EVENTS", 361)
    assert await world.list_positions() == await store_events(world)


async def test_a_lost_stream_is_filled_again_though_nothing_is_appended(world: World) -> None:
    await tell(world)
    feed = FeedPublisher(world.bus, world.log, world.pool, look_seconds=0.1)
    await world.feed_all(feed)
    await world.streams.delete("EVENTS")
    async with lead(feed):
        await world.streams.wait_until_grown("EVENTS", 7)
    assert await world.list_positions() == await store_events(world)


async def test_a_lost_stream_gets_what_it_would_have_kept_and_nothing_older(world: World) -> None:
    ends = []
    for _ in range(4):
        await world.store.append(
            Conversation(conversation_id=make_id()),
            [build_conversation_started(), *turn(make_id(), "Hello", "Hi")],
        )
        ends.append(await world.log.read_head())
    age = "UPDATE conversation_events SET at = now() - make_interval(days => %s) WHERE notification_id <= %s"
    async with await psycopg.AsyncConnection.connect(world.url) as owner:
        for days, position in ((2, ends[3]), (20, ends[2]), (31, ends[1]), (90, ends[0])):
            await owner.execute(age, [days, position])
    await world.feed_all()
    assert await world.list_positions() == await store_events(world, ends[1])
    async with await psycopg.AsyncConnection.connect(world.url) as owner:
        await owner.execute(age, [31, ends[3]])
    assert await find_kept_position(world.pool) == ends[-1]  # nothing happened for long


async def test_an_empty_log_is_fed_from_its_start(world: World) -> None:
    assert await find_kept_position(world.pool) == 0
