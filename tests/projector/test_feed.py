"""Every stored event goes to EVENTS once, in log order, whoever leads and whatever is lost."""

import psycopg
import pytest
from msgspec.structs import replace

from agentchat.bus.errors import FeedConflict
from agentchat.contracts import events, wire
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store import event_log as log_module
from agentchat.conversations.event_store.feed_reader import store_fed_position
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.projector.feed_publisher import FeedPublisher
from agentchat.runtime.postgres import acquire_connection
from agentchat.webhooks.delivery_projection import DeliveryProjection
from tests.conversations.given import (
    ACCOUNT,
    AT,
    build_conversation_started,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.turns import register_late
from tests.projector.conftest import World


async def tell(world: World, turns: int = 1) -> str:
    told = (event for number in range(turns) for event in turn(str(number), "Hello", "Hi"))
    return (await world.add(*told)).conversation_id


async def test_an_event_is_published_as_it_is_stored(world: World) -> None:
    conversation_id = await tell(world)
    await world.feed_all()
    stored = await world.log.read(0, 100)
    published = await world.streams.list_messages("EVENTS")
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
    assert await world.list_positions() == [entry.position for entry in stored]


async def test_page_that_ends_by_its_bytes_is_followed_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tell(world)
    monkeypatch.setattr(log_module, "PAGE_BYTES", 1)
    steps = {
        "feed": world.build_publisher().step,
        "webhooks": DeliveryProjection(world.pool, world.log).step,
        "read models": Follower(world.pool, world.log, PROJECTIONS).step,
    }
    async with acquire_connection(world.pool) as conn:
        await conn.execute("UPDATE webhook_position SET position = 0")
    for name, step in steps.items():
        has_more = [await step() for _ in range(7)]
        assert has_more == [True] * 6 + [False], name


async def test_a_leader_that_is_behind_finds_its_events_already_there(world: World) -> None:
    former, leader = world.build_publisher(), world.build_publisher()
    await world.feed_all(former)
    await tell(world)
    await world.feed_all(leader)
    await tell(world)
    await world.feed_all(former)
    assert await world.list_positions() == [entry.position for entry in await world.log.read(0, 100)]


async def test_a_leader_is_refused_where_somebody_else_has_published(world: World) -> None:
    await tell(world)
    feed = world.build_publisher()
    await world.feed_all(feed)
    position = str(await world.log.read_head())
    await world.bus.feed.publish_event(
        "chat.events.a.Odd",
        b"{}",
        {"Chat-Log-Position": position},
        message_id="odd",
        expected_last_sequence=7,
    )
    await tell(world)
    with pytest.raises(FeedConflict):
        await feed.step()
    await world.feed_all(feed)
    assert await world.streams.count("EVENTS") == 15


async def test_a_stream_whose_messages_have_aged_away_is_not_filled_again(world: World) -> None:
    await tell(world)
    await world.feed_all()
    await store_fed_position(world.pool, await world.log.read_head())
    await world.streams.purge("EVENTS")
    before = await world.log.read_head()
    await tell(world)
    await world.feed_all()
    assert await world.list_positions() == [entry.position for entry in await world.log.read(before, 100)]


async def test_gaps_and_events_that_cannot_be_read_are_no_obstacle(world: World) -> None:
    gone, odd = await tell(world), await tell(world)
    async with await psycopg.AsyncConnection.connect(world.url) as owner:
        await owner.execute("DELETE FROM conversation_events WHERE originator_id = %s", [gone])
        await owner.execute(
            "INSERT INTO conversation_events (originator_id, originator_version, topic, state, account_id)"
            " VALUES (%s, 8, 'unheard_of.v9', '{}', %s), ('nobody', 1, 'unheard_of.v9', '{}', NULL),"
            "        ('no JSON', 1, 'conversation_started.v1', '\\xff00', NULL)",
            [odd, ACCOUNT],
        )
    await world.feed_all()
    assert len(await world.list_positions()) == 10
    assert [each.subject for each in (await world.streams.list_messages("EVENTS"))[-3:]] == [
        f"chat.events.{ACCOUNT}.UnheardOf",
        "chat.events.unknown.UnheardOf",
        "chat.events.unknown.ConversationStarted",
    ]


async def test_the_feed_does_not_go_back_with_the_settled_position(
    world: World, migrated_database_url: str
) -> None:
    await tell(world)
    first = await world.log.read_head()
    await tell(world, turns=2)
    await world.feed_all()
    async with register_late(migrated_database_url, first):
        assert await world.log.read_settled_position() == first
        feed = world.build_publisher()
        assert await feed.step() is False
        await tell(world)
        assert await feed.step() is False, "it cannot know yet that none comes before that"
    await world.feed_all(feed)
    await world.feed_all()
    assert await world.list_positions() == [entry.position for entry in await world.log.read(0, 100)]


async def test_erasure_wakes_the_erasure_step(world: World) -> None:
    told: list[int] = []

    def note() -> None:
        told.append(len(told))

    feed = FeedPublisher(world.bus, world.log, world.pool, on_erasure=note)
    conversation_id = await tell(world)
    await world.feed_all(feed)
    assert told == []
    erased = events.ConversationErased(trace_id=trace(), at=AT, account_id=ACCOUNT)
    await world.store.append(await world.store.load(conversation_id), [erased])
    await world.feed_all(feed)
    assert told == [0]


async def test_a_history_that_a_caller_shows_is_not_published(world: World) -> None:
    """It comes whole with each of his requests: a megabyte would soon push out what EVENTS is for."""
    shown = tuple(ShownMessage("user", "x" * 10_000) for _ in range(100))
    seeded = events.ConversationSeeded(trace_id=trace(), at=AT, messages=shown)
    await world.store.append(
        Conversation(conversation_id=make_id()),
        [build_conversation_started(), seeded, build_user_message(), build_run_started()],
    )
    await world.feed_all()
    published = [each for each in await world.streams.list_messages("EVENTS") if "Seeded" in each.subject]
    assert [wire.decode_event(each.data) for each in published] == [replace(seeded, messages=())]
    assert (await world.log.read_events(published[0].headers["Chat-Conversation-Id"]))[1] == seeded
