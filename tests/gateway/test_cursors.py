"""Lists of a run's updates and cursors in them, whatever the pieces and the order in which they came."""

import asyncio
import random
from collections.abc import Callable

from agentchat.bus.bus import Bus
from agentchat.bus.connection import Connection
from agentchat.bus.jetstream import JetStream
from agentchat.bus.subscription import Subscription
from agentchat.bus.trace_channel import Traces
from agentchat.contracts import frames
from agentchat.contracts.stream_cursors import Cursor, parse_cursor
from agentchat.contracts.updates import (
    Broken,
    Finished,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolStarted,
    Update,
    WarningUpdate,
)
from agentchat.contracts.values import Message, RunWarning
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import open_log
from agentchat.gateway.runs.event_stream import RunFollower
from agentchat.gateway.runs.follow_frames import SHUTDOWN, FollowedRuns
from agentchat.gateway.runs.run_request import STREAM
from agentchat.gateway.runs.updates_after_cursor import EXPIRED, MarkedUpdate, ReadPosition, UpdateHistory
from tests.gateway.conftest import Accounts
from tests.gateway.event_streams import ask_events
from tests.gateway.stored import write
from tests.gateway.worker import Turn

TRACE = "0af7651916cd43dd8448eb211c80319c"
TEXT = "Déjà vu 👀: the order has shipped, and will be there on Monday."
CALLS = [ToolStarted(f"c{n}", "look", {"n": n}) for n in range(3)]
EXTRAS: list[Update] = [
    WarningUpdate(RunWarning(code="tool_server_unavailable", subject="crm", message="It is away.")),
    *(ToolEnded(f"c{n}", is_error=False, output="{}") for n in range(3)),
]
DONE = Finished(Message(id="m", conversation_id="c", content=TEXT, token_count=1, created_at=""), ())


def render(seed: int) -> list[Update]:
    """The run as some gateway tells it: the text in any pieces, the calls in order but anywhere."""
    chance = random.Random(seed)
    ends = [*sorted(chance.sample(range(1, len(TEXT)), chance.randrange(12))), len(TEXT)]
    middle: list[Update] = [TextUpdate(TEXT[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    for place, call in zip(
        sorted(chance.choices(range(len(middle) + 1), k=3), reverse=True), CALLS[::-1], strict=True
    ):
        middle.insert(place, call)
    for ended, call in zip(EXTRAS[1:], CALLS, strict=True):
        middle.insert(middle.index(call) + 1, ended)
    return [Started(), RetrievedSources(()), EXTRAS[0], *middle, DONE]


def read_told(updates: list[Update]) -> UpdateHistory:
    buffer = UpdateHistory(has_outputs=True)
    buffer.add(updates)
    return buffer


def make_cursor(entry: MarkedUpdate) -> str:
    assert entry.cursor is not None
    return entry.cursor.format(TRACE)


def test_a_cursor_is_of_its_trace_alone() -> None:
    for entry in read_told(render(1)).entries:
        cursor = make_cursor(entry)
        assert parse_cursor(cursor, TRACE) == entry.cursor
        for wrong in (
            cursor + "x",
            cursor + "\n",
            " " + cursor,
            cursor.upper() + "X",
            cursor.replace(":", ""),
        ):
            assert parse_cursor(wrong, TRACE) is None
        assert parse_cursor(cursor, TRACE[::-1]) is None


def test_a_client_that_reconnects_at_any_cursor_gets_each_event_once() -> None:
    for seed in range(60):
        check_reconnects(seed)


def check_reconnects(seed: int) -> None:
    chance = random.Random(seed)
    heard: list[Update] = []
    cursor: Cursor | None = None
    for visit in range(6):
        position = ReadPosition(read_told(render(seed * 100 + visit)), cursor)
        assert not position.is_lost
        taken = position.take_marked()
        for entry in taken[: None if visit == 5 else chance.randrange(len(taken) + 1)]:
            heard.append(entry.update)
            cursor = parse_cursor(make_cursor(entry), TRACE)
    assert "".join(update.text for update in heard if isinstance(update, TextUpdate)) == TEXT
    assert [update for update in heard if isinstance(update, ToolStarted)] == CALLS
    assert [update for update in heard if isinstance(update, WarningUpdate | ToolEnded)] == EXTRAS
    assert heard[0] == Started()
    assert heard[1] == RetrievedSources(())
    assert heard[-1] == DONE
    assert sum(isinstance(update, Started | RetrievedSources | Finished) for update in heard) == 3


def test_a_subscriber_of_a_growing_buffer_gets_the_same_events() -> None:
    for seed in range(20):
        check_growing_buffer(seed)


def check_growing_buffer(seed: int) -> None:
    chance, updates = random.Random(seed), render(seed)
    cursor = chance.choice(read_told(updates).entries).cursor
    buffer = UpdateHistory(has_outputs=True)
    position, taken = ReadPosition(buffer, cursor), []
    for update in updates:
        buffer.add([update])
        if chance.random() < 0.7:
            taken += position.take_marked()
    taken += position.take_marked()
    assert position.ended
    whole = ReadPosition(read_told(updates), cursor).take_marked()
    assert [(each.update, each.cursor) for each in taken] == [(each.update, each.cursor) for each in whole]


def test_events_of_the_gateway_itself_have_no_cursor() -> None:
    buffer = read_told([Started(), TextUpdate("He"), SHUTDOWN])
    assert buffer.is_local is True
    assert buffer.entries[-1].cursor is None
    ahead = Cursor(stage=1, calls=0, length=9, digest="0" * 8)
    assert [entry.update for entry in ReadPosition(buffer, ahead).take_marked()] == [SHUTDOWN]
    failed = read_told([Started(), TextUpdate("He"), Broken("provider_error", "no")])
    assert not failed.is_local
    assert ReadPosition(failed, ahead).is_lost


def test_a_reconnect_gets_nothing_of_another_text() -> None:
    cursor = read_told([Started(), TextUpdate("Hello")]).entries[-1].cursor
    buffer = UpdateHistory()
    position = ReadPosition(buffer, cursor)
    for update in (Started(), CALLS[0], TextUpdate("Ha")):
        buffer.add([update])
        assert position.take_marked() == []
    buffer.add([TextUpdate("llo!")])
    assert [entry.update for entry in position.take_marked()] == [EXPIRED]
    assert position.ended


def test_a_reconnect_after_text_gets_no_sources() -> None:
    cursor = read_told([Started(), TextUpdate("He")]).entries[-1].cursor  # by a gateway that had missed them
    buffer = read_told([Started(), RetrievedSources(()), TextUpdate("Hello")])
    assert [entry.update for entry in ReadPosition(buffer, cursor).take_marked()] == [TextUpdate("llo")]


async def test_hundreds_of_subscribers_share_one_nats_subscription(
    fresh_nats_url: str, migrated_database_url: str, accounts: Accounts, store: ConversationStore
) -> None:
    request = ask_events(accounts)
    await write(store, request)
    async with Bus.connect(fresh_nats_url, name="counted") as bus, open_log(migrated_database_url) as log:
        bus.traces = counted = Counted(bus._connection)
        runs = FollowedRuns(bus, log)
        turn = await Turn(bus, request).accept()
        await turn.delta("Hello")
        trace_id, conversation_id = request.trace_id, request.conversation_id
        following = (
            runs.follow(trace_id, conversation_id, STREAM, from_beginning=True, after_version=1)
            for _ in range(500)
        )
        readers = await asyncio.gather(*following)
        await turn.delta(" there.")
        await turn.complete()
        for reader in readers:
            assert await join_text(reader) == "Hello there."
        assert counted.followed == 1
        assert counted.read_back == 1
        assert len(runs) == 1
        for reader in readers:
            await reader.aclose()
        assert len(runs) == 0


async def join_text(reader: RunFollower) -> str:
    text = ""
    async with asyncio.timeout(20):
        while True:
            text += "".join(update.text for update in reader.take() if isinstance(update, TextUpdate))
            if reader.ended:
                return text
            await reader.wait()


class Counted(Traces):
    """The traces of a bus, which count what they are asked for."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, JetStream(connection))
        self.followed = self.read_back = 0

    async def follow_trace(self, trace_id: str, deliver: Callable[[frames.Frame], None]) -> Subscription:
        self.followed += 1
        return await super().follow_trace(trace_id, deliver)

    async def read_frames(self, trace_id: str) -> list[frames.Frame]:
        self.read_back += 1
        return await super().read_frames(trace_id)
