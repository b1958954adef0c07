"""An empty log, an empty EVENTS, and a look into the streams as any NATS client has it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import nats
import nats.js.errors
import psycopg
import pytest
from nats.aio.client import Client
from nats.js.api import RawStreamMsg

from agentchat.bus.bus import Bus
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.projector.feed_publisher import FeedPublisher
from agentchat.runtime.postgres import Pool
from tests.conversations.outages import make_steady
from tests.conversations.read_models import Storage


class Published(NamedTuple):
    """A message of a stream."""

    subject: str
    data: bytes
    headers: dict[str, str]


class Streams:
    """The messages in the streams of one NATS server."""

    def __init__(self, client: Client) -> None:
        self._jetstream = client.jetstream()

    async def list_messages(self, stream: str) -> list[Published]:
        state = (await self._jetstream.stream_info(stream)).state
        if state.messages == 0:
            return []
        sequences = range(state.first_seq, state.last_seq + 1)
        messages = [await self._read_message(stream, sequence) for sequence in sequences]
        return [
            Published(str(each.subject), each.data or b"", each.headers or {}) for each in messages if each
        ]

    async def _read_message(self, stream: str, sequence: int) -> RawStreamMsg | None:
        try:
            return await self._jetstream.get_msg(stream, sequence)
        except nats.js.errors.NotFoundError:
            return None  # removed

    async def count(self, stream: str) -> int:
        """Return the number of messages, 0 if the stream is gone."""
        try:
            return int((await self._jetstream.stream_info(stream)).state.messages)
        except nats.js.errors.NotFoundError:
            return 0

    async def wait_until_grown(self, stream: str, count: int) -> None:
        """Wait until it holds so many messages."""
        async with asyncio.timeout(60):
            while await self.count(stream) < count:  # noqa: ASYNC110 - another process fills it
                await asyncio.sleep(0.02)

    async def purge(self, stream: str) -> None:
        """Remove its messages; its sequence goes on."""
        await self._jetstream.purge_stream(stream)

    async def delete(self, stream: str) -> None:
        """Remove it, so that one of that name begins empty.

        The server moves its folder aside and removes that later. While the folder of an earlier deletion is
        still there, it leaves the messages where they are, and the next stream of that name has them again.
        So one is created to look, until it is empty.
        """
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(nats.js.errors.NotFoundError):
                    await self._jetstream.delete_stream(stream)
                seen = await self._jetstream.add_stream(name=stream, subjects=[f"empty.{stream}"])
                if seen.state.last_seq == 0:
                    break
                await asyncio.sleep(0.02)
            await self._jetstream.delete_stream(stream)


@dataclass(frozen=True)
class World(Storage):
    """The stored events of a test, and the published ones."""

    bus: Bus
    streams: Streams

    def build_publisher(self, **how: Any) -> FeedPublisher:
        return FeedPublisher(self.bus, self.log, self.pool, **how)

    async def feed_all(self, feed: FeedPublisher | None = None) -> None:
        feed = feed or self.build_publisher()
        while await feed.step():
            pass

    async def list_positions(self) -> list[int]:
        """List the log positions of the messages in EVENTS."""
        return [int(each.headers["Chat-Log-Position"]) for each in await self.streams.list_messages("EVENTS")]


@pytest.fixture
async def streams(fresh_nats_url: str) -> AsyncIterator[Streams]:
    client = await nats.connect(fresh_nats_url)
    yield Streams(client)
    await client.close()


@pytest.fixture
async def bus(fresh_nats_url: str, streams: Streams) -> AsyncIterator[Bus]:
    """On empty streams."""
    for stream in ("EVENTS", "REQUESTS"):
        await streams.delete(stream)
    async with Bus.connect(fresh_nats_url, name="test") as opened:
        yield opened


# A killed process leaves sessions that may still hold locks, in another order than TRUNCATE takes them.
_END_PROJECTORS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE application_name LIKE 'projector-%' AND datname = current_database()
"""


@pytest.fixture(autouse=True)
async def empty_database(migrated_database_url: str) -> None:
    tables = (
        "conversation_events, run_leases, waiting_line, conversations, messages, projection_positions,"
        " parked_events, run_requests, erasures, runs, usage_by_day, tools, approvals, search, feedback"
    )
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute(_END_PROJECTORS)
        await owner.execute(f"TRUNCATE {tables}".encode())
        await make_steady(owner)


@pytest.fixture
def world(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str, bus: Bus, streams: Streams
) -> World:
    return World(store, log, pool, migrated_database_url, bus, streams)
