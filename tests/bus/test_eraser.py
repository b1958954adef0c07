"""An erasure removes a conversation's messages from the streams, and nothing else."""

import itertools
import os
import random

import pytest
from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.bus.commands import erase_conversation
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.feed_seek import FeedEnd
from agentchat.contracts import examples, frames, messages, subjects, wire
from agentchat.contracts.messages import ChatRequested, DeadLettered, EraseAnswered
from agentchat.contracts.tool_messages import ToolFinished, ToolRequested
from tests.bus.nats_server import NatsServer
from tests.contracts.wire_examples import MESSAGE_EXAMPLES

SAID = frames.DeltaFrame(seq=1, attempt=1, round=1, text="secret", offset=0)
CHAT = next(m for m in MESSAGE_EXAMPLES if isinstance(m, ChatRequested))
TOOL = next(m for m in MESSAGE_EXAMPLES if isinstance(m, ToolRequested))
RESULT = next(m for m in MESSAGE_EXAMPLES if isinstance(m, ToolFinished))


def make_trace_id() -> str:
    return os.urandom(16).hex()


@pytest.mark.parametrize("seed", range(2))
async def test_events_are_found_by_their_place_in_the_log(nats_server: NatsServer, seed: int) -> None:
    """Positions have gaps, sequences do not begin at 1, and some of the messages are gone already."""
    dice = random.Random(seed)
    positions = list(itertools.accumulate(dice.choice((1, 1, 1, 2, 50)) for _ in range(300)))
    async with Bus.connect(nats_server.url, name="test") as bus:
        for sequence, position in enumerate(positions):
            await _append(bus, position, sequence)
        gone = set(dice.sample(positions, 40))
        await bus.eraser.erase_events(gone)
        assert await _list_positions(bus, 1, len(positions)) == [
            each for each in positions if each not in gone
        ]
        also = set(dice.sample(positions, 100))
        await bus.eraser.erase_events([*also, 0, positions[-1] + 7])
        left = await _list_positions(bus, 1, len(positions))
        assert left == [each for each in positions if each not in gone | also]
        assert await bus.feed.find_end() == FeedEnd(sequence=300, position=left[-1])


async def test_what_was_erased_from_events_is_not_in_its_files(nats_server: NatsServer) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        await _append(bus, 1, 0, b'{"content":"a-canary"}')
        await _append(bus, 2, 1, b'{"content":"kept"}')
        await bus.eraser.erase_events([1])
        await nats_server.kill()
    stored = b"".join(each.read_bytes() for each in nats_server.folder.rglob("*") if each.is_file())
    assert b"kept" in stored
    assert b"a-canary" not in stored


async def test_runs_leave_the_live_stream_the_queues_and_the_dead_letters(nats_server: NatsServer) -> None:
    mine, other = make_trace_id(), make_trace_id()
    async with Bus.connect(nats_server.url, name="test") as bus:
        for each in (mine, other):
            await bus.traces.publish_frame(each, SAID)
            await bus.traces.finish_tool(replace(RESULT, trace_id=each))
            await bus.queues.request_tool(replace(TOOL, trace_id=each))
            await bus.queues.request_chat(replace(CHAT, trace_id=each))
            payload = wire.encode(replace(TOOL, trace_id=each)).decode()
            await bus.queues.publish_dead_letter(
                DeadLettered(stream="TOOLS", subject="s", reason="no", payload=payload)
            )
        await bus.eraser.erase_runs([mine, make_trace_id()])
        await bus.eraser.erase_mentions([mine, make_trace_id()])
        assert await bus.traces.read_frames(mine) == []
        assert await bus.traces.read_tool_results(mine) == {}
        assert await bus.traces.read_frames(other) == [SAID]
        assert list(await bus.traces.read_tool_results(other)) == [RESULT.call_id]
        for stream, subject in (
            ("REQUESTS", "chat.requests.>"),
            ("TOOLS", "chat.tools.>"),
            ("DEAD", "chat.dead.>"),
        ):
            left = [each.data async for each in bus._jetstream.read_messages(stream, subject)]
            assert len(left) == 1, stream
            assert other.encode() in left[0], stream


async def test_requests_that_name_a_conversation_leave_too(nats_server: NatsServer) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        kept = replace(CHAT, trace_id=make_trace_id(), conversation_id="0192f0c1-7c4e-7aaa-8bbb-0000000000ff")
        for request in (replace(CHAT, trace_id=make_trace_id()), kept):
            await bus.queues.request_chat(request)
            payload = wire.encode(request).decode()
            await bus.queues.publish_dead_letter(
                DeadLettered(stream="REQUESTS", subject="s", reason="no", payload=payload)
            )
        await bus.eraser.erase_mentions([make_trace_id(), CHAT.conversation_id])
        for stream, subject in (("REQUESTS", "chat.requests.>"), ("DEAD", "chat.dead.>")):
            left = [each.data async for each in bus._jetstream.read_messages(stream, subject)]
            assert [kept.trace_id.encode() in data for data in left] == [True], stream


@pytest.mark.parametrize(("outcome", "told"), [("erased", True), ("not_found", False), ("unavailable", None)])
async def test_the_outcome_of_an_erasure_is_true_false_or_unknown(
    bus: Bus, outcome: messages.EraseOutcome, told: bool | None
) -> None:
    heard = []

    async def answer(data: bytes) -> bytes:
        heard.append(wire.decode_message(messages.EraseConversation, data))
        return wire.encode(EraseAnswered(outcome=outcome))

    serving = await bus.rpc.serve(subjects.ALL_COMMANDS, "test", answer)
    asked = erase_conversation(bus.rpc, "account-1", "conversation-1", trace_id="t")
    if told is None:
        with pytest.raises(BusUnavailable):
            await asked
    else:
        assert await asked is told
    await serving.close()
    assert heard == [
        messages.EraseConversation(trace_id="t", account_id="account-1", conversation_id="conversation-1")
    ]


async def test_an_erasure_that_nobody_serves_is_unknown(bus: Bus) -> None:
    with pytest.raises(BusUnavailable, match="nobody serves"):
        await erase_conversation(bus.rpc, "account-2", "conversation-1", trace_id="t")


async def _append(bus: Bus, position: int, after: int, data: bytes = b"{}") -> None:
    await bus.feed.publish_event(
        subjects.format_event(examples.ACCOUNT, "MessageSaved"),
        data,
        {subjects.POSITION_HEADER: str(position)},
        message_id=f"event-{position}",
        expected_last_sequence=after,
    )


async def _list_positions(bus: Bus, first: int, last: int) -> list[int]:
    """List the positions that EVENTS holds, in its order."""
    found = [each async for each in bus._jetstream.read_messages("EVENTS", "chat.events.>")]
    assert all(first <= each.sequence <= last for each in found)
    return [int(each.headers[subjects.POSITION_HEADER]) for each in found]
