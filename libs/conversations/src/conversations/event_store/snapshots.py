"""Snapshots of long conversations, so that a load is bounded: a snapshot, and the events after it.

The table is as the eventsourcing library's for snapshots (`application`), with one row a conversation. A
snapshot is a cache: rows may be deleted at any time. Its topic names what it was made by, so that a release
that folds events in another way, or has another state, does not read it and makes its own.
"""

import asyncio
import functools
import hashlib
import zlib
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace
from psycopg import sql

from conversations.aggregate.conversation import Conversation
from runtime.bounded import BoundedMap
from runtime.postgres import Pool, connection

TABLE = "conversation_snapshots"
PREFIX = "conversation_snapshot."
"""Of the topics of all layouts."""
EVENTS_BETWEEN = 1_000
"""Fewer are folded in a few milliseconds."""
GROWTH = 0.1
"""The next snapshot is taken after the events have grown by this part: each byte is written a few times."""
FOLD = 1
"""To be raised where `evolve` makes another state of the same events."""
_FORMAT = "lines"
"""How a state is stored: see `encode`."""
_DESCRIBED_A_LINE = 1_000
_KNOWN = 10_000

TABLES = """
CREATE TABLE conversation_snapshots (
    originator_id text NOT NULL,
    originator_version bigint NOT NULL,
    topic text,
    state bytea,
    PRIMARY KEY (originator_id, originator_version)
);
GRANT SELECT, INSERT, DELETE ON conversation_snapshots TO agentchat_service;
"""

_decoder = msgspec.json.Decoder(Conversation)
_encoder = msgspec.json.Encoder()


@functools.cache
def topic() -> str:
    """PREFIX and a hash of the state's layout, FOLD and how it is stored."""
    layout = msgspec.json.encode([FOLD, _FORMAT, msgspec.json.schema(Conversation)], order="deterministic")
    return PREFIX + hashlib.sha256(layout).hexdigest()[:16]


def is_topic(topic: str) -> bool:
    """Whether a row with it is a snapshot, of whatever layout."""
    return topic.startswith(PREFIX)


def encode(conversation: Conversation) -> bytes:
    """The state as stored: a line of JSON for each run, compressed by zlib.

    Each line is a conversation with a part of the state. One JSON of 60 MiB held the interpreter's lock, and
    so the event loop, for a third of a second.
    """
    runs, described = conversation.runs, conversation.described
    parts = [replace(conversation, runs=(), described=())]
    id_ = conversation.conversation_id
    parts += [Conversation(conversation_id=id_, runs=(run,)) for run in runs]
    parts += [
        Conversation(conversation_id=id_, described=described[start : start + _DESCRIBED_A_LINE])
        for start in range(0, len(described), _DESCRIBED_A_LINE)
    ]
    return zlib.compress(b"\n".join([_encoder.encode(part) for part in parts]), level=1)


def decode(state: bytes) -> Conversation:
    """The state that was stored. Raises ValueError."""
    try:
        first, *others = map(_decoder.decode, _lines(zlib.decompress(state)))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    runs = tuple(run for part in others for run in part.runs)
    return replace(first, runs=runs, described=tuple(each for part in others for each in part.described))


def _lines(text: bytes) -> Iterator[memoryview]:
    """Without a copy of all of them at once."""
    view, start = memoryview(text), 0
    while start <= len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        yield view[start:end]
        start = end + 1


class Snapshots:
    """Reads and writes snapshots. Its calls raise DatabaseUnavailable, psycopg.Error."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: BoundedMap[str, tuple[int, int]] = BoundedMap(_KNOWN)

    async def newest(self, conversation_id: str) -> Conversation | None:
        """The conversation as it was when its newest snapshot was taken; None without one."""
        async with connection(self._pool) as conn, conn.cursor(binary=True) as cursor:
            await cursor.execute(_NEWEST, [conversation_id, topic()])
            row = await cursor.fetchone()
        if row is None:
            return None
        conversation = await asyncio.to_thread(decode, row[0])
        self._known.put(conversation_id, (conversation.version, conversation.stored_bytes))
        return conversation

    def is_due(self, conversation: Conversation) -> bool:
        """Whether to keep this state, by what the newest snapshot known here was of."""
        if conversation.version < EVENTS_BETWEEN or conversation.erased:
            return False
        version, stored_bytes = self._known.get(conversation.conversation_id) or (0, 0)
        return (
            conversation.version - version >= EVENTS_BETWEEN
            and conversation.stored_bytes - stored_bytes >= GROWTH * stored_bytes
        )

    async def put(self, conversation: Conversation) -> None:
        """Keep this state in the place of older ones, unless the conversation is erased."""
        named = {
            "id": conversation.conversation_id,
            "version": conversation.version,
            "topic": topic(),
            "state": await asyncio.to_thread(encode, conversation),
        }
        async with connection(self._pool) as conn:
            await conn.execute(_PUT, named)
        self._known.put(conversation.conversation_id, (conversation.version, conversation.stored_bytes))


_NEWEST = sql.SQL(
    "SELECT state FROM {} WHERE originator_id = %s AND topic = %s ORDER BY originator_version DESC LIMIT 1"
).format(sql.Identifier(TABLE))
# An erasure deletes the snapshots that it finds, and its passes (`erasures`) those that came meanwhile.
_PUT = sql.SQL(
    "WITH older AS ("
    "  DELETE FROM {table} WHERE originator_id = %(id)s"
    "     AND (topic <> %(topic)s OR originator_version < %(version)s)"
    ") INSERT INTO {table} (originator_id, originator_version, topic, state)"
    " SELECT %(id)s, %(version)s, %(topic)s, %(state)s WHERE NOT EXISTS ("
    "  SELECT FROM conversation_events WHERE originator_id = %(id)s AND topic = 'conversation_erased.v1')"
    " ON CONFLICT DO NOTHING"
).format(table=sql.Identifier(TABLE))
