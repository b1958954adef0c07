"""An erased conversation leaves the streams and read models, whatever dies or comes late."""

import asyncio
import random
from collections import Counter

import nats
import pytest
from nats.aio.msg import Msg

from agentchat.bus.bus import Bus
from agentchat.contracts import frames
from agentchat.contracts.ids import make_id
from agentchat.conversations import erasures
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.erasures import list_due_erasures
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.projector.erasure_step import ROWS_AT_ONCE, ErasureStep
from agentchat.projector.feed_publisher import FeedPublisher
from agentchat.runtime.postgres import acquire_connection
from tests.bus.nats_server import NatsServer
from tests.conversations.given import (
    ERASED,
    build_compacted,
    build_conversation_started,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.projector.conftest import World
from tests.support.file_folder import OBJECTS

SAID = frames.DeltaFrame(seq=1, attempt=1, round=1, text="a-canary", offset=0)


async def tell(world: World, word: str, text: str = "a-canary") -> Conversation:
    open_ = f"{word}-open"
    told = [
        *turn(word, text, text),
        build_user_message(open_),
        build_run_started(open_),
        build_compacted(7, open_, text),
    ]
    return await world.add(*told)


async def follow_log(world: World, feed: FeedPublisher | None = None) -> None:
    """Bring EVENTS and the read models to the end of the log."""
    await world.feed_all(feed)
    await world.follow((*PROJECTIONS, erasures.PROJECTION))


async def make_due(world: World) -> None:
    async with acquire_connection(world.pool) as conn:
        await conn.execute("UPDATE erasures SET due_at = clock_timestamp()")


async def list_names(world: World, conversation_id: str) -> list[str]:
    """List the events that EVENTS holds of a conversation."""
    return [
        each.subject.rpartition(".")[2]
        for each in await world.streams.list_messages("EVENTS")
        if each.headers["Chat-Conversation-Id"] == conversation_id
    ]


async def test_its_events_leave_the_feed_and_the_others_stay(world: World) -> None:
    threads = [await tell(world, f"w{number}", f"text-{number}") for number in range(3)]
    await follow_log(world)
    gone = await world.store.append(threads[1], [ERASED])
    assert (
        len(await ErasureStep(world.bus, world.pool, OBJECTS).erase_due()) == 0
    )  # EVENTS has not come to it
    await follow_log(world)
    assert len(await ErasureStep(world.bus, world.pool, OBJECTS).erase_due()) == 1
    assert await list_names(world, gone.conversation_id) == ["ConversationErased"]
    for thread in (threads[0], threads[2]):
        assert len(await list_names(world, thread.conversation_id)) == thread.version
    assert not any(b"text-1" in each.data for each in await world.streams.list_messages("EVENTS"))
    await tell(world, "later")
    await follow_log(world)
    positions = [
        int(each.headers["Chat-Log-Position"]) for each in await world.streams.list_messages("EVENTS")
    ]
    assert positions == [entry.position for entry in await world.log.read(0, 100)]


async def test_an_emptied_stream_does_not_hold_it_up(world: World) -> None:
    await world.store.append(await tell(world, "a"), [ERASED])
    await follow_log(world)
    await world.streams.purge("EVENTS")
    assert len(await ErasureStep(world.bus, world.pool, OBJECTS).erase_due()) == 1


async def test_a_second_pass_removes_late_messages(world: World) -> None:
    await world.store.append(await tell(world, "a"), [ERASED])
    await follow_log(world)
    erasing = ErasureStep(world.bus, world.pool, OBJECTS)
    await world.bus.traces.publish_frame(trace("a"), SAID)
    assert [len(await erasing.erase_due()) for _ in range(2)] == [1, 0]
    assert await world.bus.traces.read_frames(trace("a")) == []
    await world.bus.traces.publish_frame(trace("a"), SAID)
    await make_due(world)
    assert len(await erasing.erase_due()) == 1
    assert await world.bus.traces.read_frames(trace("a")) == []
    async with acquire_connection(world.pool) as conn:
        assert await (await conn.execute("SELECT 1 FROM erasures")).fetchall() == []


@pytest.mark.slow
async def test_it_is_finished_wherever_it_was_interrupted_and_by_whomever(world: World) -> None:
    dice = random.Random(7)
    threads = [await tell(world, f"w{number}") for number in range(12)]
    await follow_log(world)
    for thread in threads:
        await world.bus.traces.publish_frame(trace(f"w{threads.index(thread)}"), SAID)
        await world.store.append(thread, [ERASED])
    await follow_log(world)
    patience = 0.05  # more and more, so that it comes to an end where all is slow
    while await list_due_erasures(world.pool, 10**9, limit=1):
        steps = [asyncio.create_task(ErasureStep(world.bus, world.pool, OBJECTS).step()) for _ in range(2)]
        _, late = await asyncio.wait(steps, timeout=dice.uniform(0.001, patience))
        patience *= 1.05
        for step in late:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)
    for thread in threads:
        assert await list_names(world, thread.conversation_id) == ["ConversationErased"]
        assert await world.bus.traces.read_frames(trace(f"w{threads.index(thread)}")) == []


async def test_long_conversation_is_overwritten_in_chunks(world: World, nats_server: NatsServer) -> None:
    told = [event for number in range(40) for event in turn(f"w{number}", "a-canary", "a-canary")]
    long = await world.store.append(
        Conversation(conversation_id=make_id()), [build_conversation_started(), *told]
    )
    assert ROWS_AT_ONCE < long.version <= 2 * ROWS_AT_ONCE
    short = await tell(world, "short")
    async with Bus.connect(nats_server.url, name="test") as bus:
        await tell(world, "kept", "kept")
        await follow_log(world, FeedPublisher(bus, world.log, world.pool))
        await world.store.append(long, [ERASED])
        await follow_log(world, FeedPublisher(bus, world.log, world.pool))
        erasing = ErasureStep(bus, world.pool, OBJECTS)
        assert await erasing.step(), "it has more rows, and is not left for two seconds"
        await world.store.append(short, [ERASED])
        await follow_log(world, FeedPublisher(bus, world.log, world.pool))
        due = await list_due_erasures(world.pool, 10**9, limit=2)
        assert [each.conversation_id for each in due] == [long.conversation_id, short.conversation_id]
        assert [len(await erasing.erase_due()) for _ in range(2)] == [2, 0]
    await nats_server.kill()
    stored = b"".join(each.read_bytes() for each in nats_server.folder.rglob("*.blk"))
    assert b"kept" in stored
    assert b"a-canary" not in stored


async def test_the_dead_letters_are_read_through_once_for_many_erasures(
    world: World, fresh_nats_url: str
) -> None:
    for number in range(5):
        await world.store.append(await tell(world, f"w{number}"), [ERASED])
    await follow_log(world)
    reads: Counter[str] = Counter()

    async def count(message: Msg) -> None:
        reads[message.subject.rpartition(".")[2]] += 1

    spy = await nats.connect(fresh_nats_url)
    await spy.subscribe("$JS.API.DIRECT.GET.*", cb=count)
    await spy.flush()
    for _ in range(2):
        reads.clear()
        assert len(await ErasureStep(world.bus, world.pool, OBJECTS).erase_due()) == 5
        await world.bus.ping()
        await spy.flush()
        assert {name: reads[name] for name in ("REQUESTS", "TOOLS", "DEAD")} == {
            "REQUESTS": 1,
            "TOOLS": 1,
            "DEAD": 1,
        }
        await make_due(world)
    await spy.close()
