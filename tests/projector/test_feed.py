"""Every stored event goes to EVENTS once, in log order, whoever leads and whatever is lost."""

import asyncio

import psycopg
import pytest
from msgspec.structs import replace

from bus import Bus, FeedConflict
from contracts import events, wire
from contracts.ids import new_id
from contracts.values import ShownMessage
from conversations.aggregate.conversation import Conversation
from conversations.event_store.feed_reader import remember_fed
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from projector.feed_publisher import BATCH, FeedPublisher
from projector.log_follower import LogFollower
from runtime.postgres import Pool
from tests.conversations.given import ACCOUNT, AT, asked, began, started, trace, turn
from tests.projector.conftest import Streams

pytestmark = pytest.mark.requirement("PROJECTION-FEED")


async def tell(store: ConversationStore, turns: int = 1) -> str:
    stored = [began(), *(event for number in range(turns) for event in turn(str(number), "Hello", "Hi"))]
    told = await store.append(Conversation(conversation_id=new_id()), stored)
    return told.conversation_id


async def feed_all(feed: FeedPublisher) -> None:
    while await feed.step():
        pass


async def positions(streams: Streams) -> list[int]:
    return [int(each.headers["Chat-Log-Position"]) for each in await streams.contents("EVENTS")]


async def test_an_event_is_published_as_it_is_stored(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    conversation_id = await tell(store)
    await feed_all(FeedPublisher(bus, log, pool))
    stored = await log.read(0, 100)
    published = await streams.contents("EVENTS")
    assert [each.data for each in published] == [entry.state for entry in stored]
    assert [each.subject for each in published] == [
        f"chat.events.{ACCOUNT}.{name}"
        for name in (
            "ConversationStarted",
            "MessageSaved",
            "RunStarted",
            "Delta",
            "ModelReplied",
            "MessageSaved",
            "RunCompleted",
        )
    ]
    assert {each.headers["Chat-Conversation-Id"] for each in published} == {conversation_id}
    assert await positions(streams) == [entry.position for entry in stored]


async def test_a_new_leader_goes_on_where_events_ends(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    for _ in range(3):
        await tell(store)
        await feed_all(FeedPublisher(bus, log, pool))
    assert await positions(streams) == [entry.position for entry in await log.read(0, 100)]


async def test_two_that_take_themselves_for_the_leader_publish_each_event_once(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    feeds = [
        asyncio.create_task(LogFollower(name, FeedPublisher(bus, log, pool).step, BATCH).run())
        for name in ("one", "two")
    ]
    for _ in range(20):
        await tell(store, turns=5)
    await streams.grown("EVENTS", 20 * 31)
    for each in feeds:
        each.cancel()
    await asyncio.gather(*feeds, return_exceptions=True)
    assert await positions(streams) == [entry.position for entry in await log.read(0, 1000)]


async def test_a_leader_that_is_behind_finds_its_events_already_there(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    former, leader = FeedPublisher(bus, log, pool), FeedPublisher(bus, log, pool)
    await feed_all(former)
    await tell(store)
    await feed_all(leader)
    await tell(store)
    await feed_all(former)
    assert await positions(streams) == [entry.position for entry in await log.read(0, 100)]


async def test_a_leader_is_refused_where_somebody_else_has_published(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    await tell(store)
    feed = FeedPublisher(bus, log, pool)
    await feed_all(feed)
    position = str(await log.head())
    await bus.feed.publish_event(
        "chat.events.a.Odd",
        b"{}",
        {"Chat-Log-Position": position},
        message_id="odd",
        expected_last_sequence=7,
    )
    await tell(store)
    with pytest.raises(FeedConflict):
        await feed.step()
    await feed_all(feed)
    assert await streams.count("EVENTS") == 15


async def test_a_stream_whose_messages_have_aged_away_is_not_filled_again(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    await tell(store)
    await feed_all(FeedPublisher(bus, log, pool))
    await remember_fed(pool, await log.head())
    await streams.purge("EVENTS")
    before = await log.head()
    await tell(store)
    await feed_all(FeedPublisher(bus, log, pool))
    assert await positions(streams) == [entry.position for entry in await log.read(before, 100)]


async def test_how_far_it_was_fed_is_remembered(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    await tell(store)
    await feed_all(FeedPublisher(bus, log, pool))
    await streams.purge("EVENTS")
    assert await FeedPublisher(bus, log, pool).step() == 0


@pytest.mark.requirement("UNREADABLE")
async def test_gaps_and_events_that_cannot_be_read_are_no_obstacle(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams, migrated_database_url: str
) -> None:
    gone, odd = await tell(store), await tell(store)
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute("DELETE FROM conversation_events WHERE originator_id = %s", [gone])
        await owner.execute(
            "INSERT INTO conversation_events (originator_id, originator_version, topic, state)"
            " VALUES (%s, 8, 'unheard_of.v9', '{}'), ('nobody', 1, 'unheard_of.v9', '{}'),"
            "        ('no JSON', 1, 'conversation_started.v1', '\\xff00')",
            [odd],
        )
    await feed_all(FeedPublisher(bus, log, pool))
    assert len(await positions(streams)) == 10
    assert [each.subject for each in (await streams.contents("EVENTS"))[-3:]] == [
        f"chat.events.{ACCOUNT}.UnheardOf",
        "chat.events.unknown.UnheardOf",
        "chat.events.unknown.ConversationStarted",
    ]


async def test_a_log_that_was_set_back_is_followed_from_its_end(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams, migrated_database_url: str
) -> None:
    told = await store.append(Conversation(conversation_id=new_id()), [began()])
    await tell(store, turns=5)
    await feed_all(FeedPublisher(bus, log, pool))
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute(
            "DELETE FROM conversation_events WHERE originator_id <> %s", [told.conversation_id]
        )
    feed = FeedPublisher(bus, log, pool)
    assert await feed.step() == 0
    await store.append(told, [asked()])
    assert await feed.step() == 1


async def test_who_removes_what_is_left_of_a_conversation_is_told_of_its_erasure(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    told: list[int] = []

    def note() -> None:
        told.append(len(told))

    feed = FeedPublisher(bus, log, pool, on_erasure=note)
    conversation_id = await tell(store)
    await feed_all(feed)
    assert told == []
    erased = events.ConversationErased(trace_id=trace(), at=AT, account_id=ACCOUNT)
    await store.append(await store.load(conversation_id), [erased])
    await feed_all(feed)
    assert told == [0]


@pytest.mark.requirement("OPENAI-API")
async def test_a_history_that_a_caller_shows_is_not_published(
    bus: Bus, store: ConversationStore, log: Log, pool: Pool, streams: Streams
) -> None:
    """It comes whole with each of his requests: a megabyte would soon push out what EVENTS is for."""
    shown = tuple(ShownMessage("user", "x" * 10_000) for _ in range(100))
    seeded = events.ConversationSeeded(trace_id=trace(), at=AT, messages=shown)
    await store.append(Conversation(conversation_id=new_id()), [began(), seeded, asked(), started()])
    await feed_all(FeedPublisher(bus, log, pool))
    published = [each for each in await streams.contents("EVENTS") if "Seeded" in each.subject]
    assert [wire.decode_event(each.data) for each in published] == [replace(seeded, messages=())]
    assert (await log.events(published[0].headers["Chat-Conversation-Id"]))[1] == seeded
