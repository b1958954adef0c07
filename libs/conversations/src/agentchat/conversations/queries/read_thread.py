"""Read a conversation for its readers, row by row from the log: none of it is folded.

A page costs what it shows, however long the conversation is, and is as new as the log itself.
"""

from datetime import datetime

import msgspec

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Run, fold
from agentchat.conversations.event_store import mapper
from agentchat.conversations.postgres_sessions import load_statements
from agentchat.runtime.postgres import Pool, acquire_connection

_SQL = load_statements(__file__)


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that exists; `version` is that of its last event."""

    conversation_id: str
    account_id: str
    user_id: str | None
    version: int


class SavedMessage(msgspec.Struct, frozen=True):
    """A saved message, and its version."""

    version: int
    message: events.MessageSaved


class SavedMessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that follow each other, the oldest first; `more` if there are later ones."""

    messages: tuple[SavedMessage, ...]
    more: bool


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a conversation at a version.

    Its first event, the number of messages, the first and the last of them, its newest description, and its
    source if it is a fork.
    """

    started: events.ConversationStarted
    count: int
    first: events.MessageSaved
    last: events.MessageSaved
    described: events.ConversationDescribed | None = None
    forked: events.ConversationForked | None = None


async def find_thread(pool: Pool, conversation_id: str) -> Thread | None:
    """Find a conversation by its id; None if it is unknown or erased.

    Raises DatabaseUnavailable. It takes as long for one of a hundred events as for one of a hundred thousand.
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_SQL["find"], [conversation_id])).fetchone()
    if row is None or row[0] is None:
        return None
    return Thread(conversation_id=conversation_id, account_id=row[0], user_id=row[2], version=row[1])


async def find_version_at(pool: Pool, thread: Thread, time: datetime) -> int:
    """Return the version of the last event that was stored by a time, 0 for none.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_SQL["first_behind"], [thread.conversation_id, time])).fetchone()
    behind = None if row is None else row[0]
    return thread.version if behind is None else int(behind) - 1


async def list_messages(
    pool: Pool, conversation_id: str, *, after: int, until: int, limit: int, max_bytes: int
) -> SavedMessagePage:
    """List up to `limit` messages with versions in (after, until].

    The last of them is the one that reaches `max_bytes` of stored JSON, with what `load_runs` has. Raises
    DatabaseUnavailable, UnreadableEvent.
    """
    parameters = {
        "id": conversation_id,
        "after": after,
        "until": until,
        "limit": limit + 1,
        "most": max_bytes,
    }
    async with acquire_connection(pool) as conn, conn.cursor(binary=True) as cursor:
        rows = await (await cursor.execute(_SQL["messages"], parameters)).fetchall()
    kept = rows[:limit]
    return SavedMessagePage(
        messages=tuple(
            SavedMessage(version, _decode_message(topic, state)) for version, topic, state, _ in kept
        ),
        more=bool(rows) and rows[0][3] > len(kept),
    )


async def load_runs(pool: Pool, conversation_id: str, *, after: int, until: int) -> dict[str, Run]:
    """Load runs by their traces, each with only its sources and its tool calls.

    `after` is the version of the first run's message, or before it. Raises DatabaseUnavailable.
    """
    named = {"id": conversation_id, "after": after, "until": until}
    async with acquire_connection(pool) as conn, conn.cursor(binary=True) as cursor:
        rows = await (await cursor.execute(_SQL["runs"], named)).fetchall()
    found, _ = mapper.decode_readable(rows)
    return {run.trace_id: run for run in fold(conversation_id, found).runs}


async def load_summary(pool: Pool, conversation_id: str, until: int) -> ThreadSummary | None:
    """Summarise the conversation up to a version; None before its first message.

    Raises DatabaseUnavailable, UnreadableEvent.
    """
    async with acquire_connection(pool) as conn, conn.cursor(binary=True) as cursor:
        named = {"id": conversation_id, "until": until}
        rows = await (await cursor.execute(_SQL["summary"], named)).fetchall()
    found = [mapper.decode_stored(topic, state) for topic, state, _ in rows]
    messages = [event for event in found if isinstance(event, events.MessageSaved)]
    if not messages:
        return None
    described = [event for event in found if isinstance(event, events.ConversationDescribed)]
    started = found[0]
    assert isinstance(started, events.ConversationStarted), "the first event of every conversation"
    return ThreadSummary(
        started=started,
        count=rows[0][2],
        first=messages[0],
        last=messages[-1],
        described=described[-1] if described else None,
        forked=next((event for event in found if isinstance(event, events.ConversationForked)), None),
    )


def _decode_message(topic: str, state: bytes) -> events.MessageSaved:
    event = mapper.decode_stored(topic, state)
    assert isinstance(event, events.MessageSaved)
    return event
