"""Request and reply, the EVENTS feed, and the streams as the server sees them."""

import asyncio
import base64
import random
import zlib

import msgspec
import nats
import pytest

from agentchat.bus import rpc
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable, FeedConflict, MessageTooLarge
from agentchat.bus.feed_seek import FeedEnd, get_position
from agentchat.contracts import examples, messages, subjects, tool_messages, wire
from agentchat.contracts.feed_event import FeedEvent
from tests.bus.nats_server import NatsServer
from tests.contracts.wire_examples import MESSAGE_EXAMPLES

ASK = next(m for m in MESSAGE_EXAMPLES if isinstance(m, tool_messages.ListTools))
LISTED = next(m for m in MESSAGE_EXAMPLES if isinstance(m, tool_messages.ToolsListed))


async def test_a_missing_service_is_reported_at_once(bus: Bus) -> None:
    async with asyncio.timeout(15):
        with pytest.raises(BusUnavailable, match="nobody serves"):
            await bus.rpc.ask("chat.test.nobody", ASK, tool_messages.ToolsListed, timeout=30)


async def test_a_failed_answer_is_reported_at_once(bus: Bus) -> None:
    async def fail(_: bytes) -> bytes:
        raise ValueError("no")

    serving = await bus.rpc.serve("chat.test.failing", "workers", fail)
    async with asyncio.timeout(15):
        with pytest.raises(BusUnavailable, match="ValueError"):
            await bus.rpc.ask("chat.test.failing", ASK, tool_messages.ToolsListed, timeout=30)
    await serving.close()


async def test_a_request_that_no_message_can_hold_is_sent_compressed(
    bus: Bus, shared_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(data: bytes) -> bytes:
        assert wire.decode_message(tool_messages.ListTools, data) == large
        return wire.encode(LISTED)

    large = msgspec.structs.replace(ASK, agent_id="Where is it? " * 1_000_000)
    noise = base64.b64encode(random.Random(0).randbytes(9_000_000)).decode()
    incompressible = msgspec.structs.replace(ASK, agent_id=noise)
    serving = await bus.rpc.serve("chat.test.large", "workers", answer)
    assert await bus.rpc.ask("chat.test.large", large, tool_messages.ToolsListed, timeout=30) == LISTED
    with pytest.raises(MessageTooLarge, match=r"takes 12,000,\d+ bytes, 9,\d+,\d+ compressed"):
        await bus.rpc.ask("chat.test.large", incompressible, tool_messages.ToolsListed, timeout=30)
    monkeypatch.setattr(rpc, "MOST_BYTES", 9_000_000)
    client = await nats.connect(shared_nats.url)
    bomb = {rpc.ENCODING_HEADER: "deflate"}
    reply = await client.request("chat.test.large", zlib.compress(b"0" * 9_000_001), 30, headers=bomb)
    assert (reply.headers or {})[rpc.FAILED_HEADER] == "MessageTooLarge"
    await client.close()
    await serving.close()


async def test_a_reply_that_comes_too_late_is_nobody_elses(bus: Bus) -> None:
    let_go = asyncio.Event()

    async def answer_late(_: bytes) -> bytes:
        await let_go.wait()
        return b"late"

    async def answer_at_once(_: bytes) -> bytes:
        return wire.encode(LISTED)

    slow = await bus.rpc.serve("chat.test.late", "workers", answer_late)
    quick = await bus.rpc.serve("chat.test.quick", "workers", answer_at_once)
    with pytest.raises(BusUnavailable):
        await bus.rpc.ask("chat.test.late", ASK, tool_messages.ToolsListed, timeout=0.2)
    let_go.set()
    for _ in range(3):
        assert await bus.rpc.ask("chat.test.quick", ASK, tool_messages.ToolsListed, timeout=20) == LISTED
    await slow.close()
    await quick.close()


async def test_events_are_appended_only_after_the_last_one(nats_server: NatsServer) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        assert await bus.feed.find_end() == FeedEnd(sequence=0, position=0)
        assert await _append(bus, position=11, after=0) == 1
        assert await _append(bus, position=12, after=1) == 2
        assert await bus.feed.find_end() == FeedEnd(sequence=2, position=12)
        with pytest.raises(FeedConflict):
            await _append(bus, position=13, after=1)
        assert await bus.feed.find_end() == FeedEnd(sequence=2, position=12)


def _build_event(position: int, size: int = 5) -> FeedEvent:
    stored = {"type": "delta.v1", "trace_id": examples.TRACE, "at": examples.AT, "text": "x" * size}
    return FeedEvent(
        position=position,
        account_id=examples.ACCOUNT,
        conversation_id=examples.CONVERSATION,
        name="Delta",
        data=wire.encode(stored),
    )


async def _list_positions(bus: Bus) -> list[int]:
    stored = bus._jetstream.read_messages("EVENTS", "chat.events.>")
    return [get_position(message) async for message in stored]


async def test_repeated_batch_stores_each_event_once_in_order(
    nats_server: NatsServer,
) -> None:
    events = [_build_event(position) for position in range(1, 6)]
    async with Bus.connect(nats_server.url, name="test") as bus:
        start = await bus.feed.find_end()
        assert await bus.feed.publish_events(events, start) == FeedEnd(sequence=5, position=5)
        assert await bus.feed.publish_events(events, start) == FeedEnd(sequence=5, position=5)
        assert await bus.feed.publish_events([], start) == start
        assert await _list_positions(bus) == [1, 2, 3, 4, 5]


async def test_no_event_of_a_batch_is_stored_after_a_refused_one(nats_server: NatsServer) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        start = await bus.feed.find_end()
        await bus.feed.publish_events([_build_event(1), _build_event(2)], start)
        with pytest.raises(FeedConflict):  # a place where another leader's event stands
            await bus.feed.publish_events([_build_event(3), _build_event(4), _build_event(5)], start)
        assert await _list_positions(bus) == [1, 2]
        behind = await bus.feed.find_end()
        assert await bus.feed.publish_events([_build_event(3)], behind) == FeedEnd(sequence=3, position=3)


async def test_many_services_may_provision_at_once(nats_server: NatsServer) -> None:
    async def connect(number: int) -> None:
        async with Bus.connect(nats_server.url, name=f"test-{number}") as bus:
            await bus.ping()

    async with asyncio.timeout(15):
        await asyncio.gather(*(connect(number) for number in range(8)))


async def _append(bus: Bus, *, position: int, after: int) -> int:
    return await bus.feed.publish_event(
        subjects.format_event(examples.ACCOUNT, "MessageSaved"),
        b"{}",
        {subjects.POSITION_HEADER: str(position)},
        message_id=f"event-{position}",
        expected_last_sequence=after,
    )


async def test_too_large_event_is_published_by_reference(
    nats_server: NatsServer,
) -> None:
    large = 8 * 1024 * 1024
    every = [_build_event(1), _build_event(2, large), _build_event(3, large - 8192), _build_event(4)]
    async with Bus.connect(nats_server.url, name="test") as bus:
        end = await bus.feed.publish_events(every, await bus.feed.find_end())
        assert end == await bus.feed.find_end() == FeedEnd(sequence=4, position=4)
        found = [each async for each in bus._jetstream.read_messages("EVENTS", "chat.events.>")]
    assert [each.data for each in found if each.sequence != 2] == [
        every[0].data,
        every[2].data,
        every[3].data,
    ]
    reference = wire.decode_message(messages.EventTooLarge, found[1].data)
    assert (reference.event, reference.trace_id) == ("delta.v1", examples.TRACE)
    assert (reference.at, reference.position) == (examples.AT, 2)
    assert (reference.conversation_id, reference.bytes) == (examples.CONVERSATION, len(every[1].data))
    assert found[1].subject == every[1].subject
