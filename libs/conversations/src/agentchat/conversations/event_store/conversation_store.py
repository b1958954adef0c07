"""Write conversations: load one at its version, append events to it at that version.

Appends go to `event_store.append_writer`. `event_store.event_log` and its followers (projector, feed,
webhooks) read them.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.append_statement import AppendItem, Condition, LeaseChange, RunStart
from agentchat.conversations.event_store.append_writer import PLANNED_ONCE, TRANSACTION, Writer
from agentchat.conversations.event_store.conversation_cache import Cache
from agentchat.conversations.event_store.event_log import Log, open_log
from agentchat.conversations.event_store.mapper import EventRow
from agentchat.conversations.event_store.recorder import ConversationDatastore, ConversationRecorder
from agentchat.runtime.postgres import Connection, open_pool

LOAD_CONNECTIONS = 4


class ConversationStore:
    """Loads and appends.

    If Postgres is away or frozen, calls raise DatabaseUnavailable within five seconds.
    """

    def __init__(self, log: Log, writer: Writer, cache: Cache) -> None:
        self._log = log
        self._writer = writer
        self._cache = cache

    async def load(self, conversation_id: str) -> Conversation:
        """Load the current state of the conversation; its version is 0 if it does not exist.

        One query for the events since the cached state, unless they fill several pages. Raises
        DatabaseUnavailable, UnreadableEvent.
        """
        while True:
            edition = self._cache.edition
            start = self._cache.get(conversation_id) or Conversation(conversation_id=conversation_id)
            conversation = await self._log.load_conversation(conversation_id, start)
            if edition == self._cache.edition:  # otherwise it began with a state that may be lost
                break
        if conversation.version:
            self._cache.put(conversation)
        return conversation

    async def load_readable(self, conversation_id: str) -> Conversation:
        """Load a conversation that `load` cannot read: see `Log.load_readable_conversation`.

        Append to it by `append_stored`: the state after it must not be cached here. Raises
        DatabaseUnavailable.
        """
        return await self._log.load_readable_conversation(conversation_id)

    def get_cached(self, conversation_id: str) -> Conversation | None:
        """Return the newest state known here, which may be behind the log.

        Then an append to it conflicts.
        """
        return self._cache.get(conversation_id)

    async def append(
        self, conversation: Conversation, new: Sequence[events.Event], *, release: LeaseChange | None = None
    ) -> Conversation:
        """Store the events after the conversation's version; return the state after them.

        A lease is released with them. Appending again what is stored is no error. Raises VersionConflict if
        something else was stored, UnstorableEvent if Postgres refuses them, and DatabaseUnavailable if it is
        unknown whether they were stored.
        """
        if not new:
            return conversation
        rows = mapper.encode_rows(new)
        account_id = _find_account(conversation, new)
        await self._writer.append(
            AppendItem(conversation.conversation_id, conversation.version, rows, account_id, release)
        )
        return self._cache_next_state(conversation, new, rows)

    async def append_start(
        self,
        conversation: Conversation,
        new: Sequence[events.Event],
        lease: LeaseChange,
        beginning: RunStart,
    ) -> tuple[Conversation, str] | None:
        """Take the lease and store the first events of a run in one statement.

        The lease must be free by the rules of `Leases.acquire`, nobody may wait for the conversation, it must
        be at this version, the condition must hold, and the estimated time must be right. The events name the
        worker. Returns the state after them and the server's time, or None: then nothing was stored, and no
        lease is held.

        Raises UnstorableEvent, DatabaseUnavailable.
        """
        rows = mapper.encode_rows(new)
        account_id = _find_account(conversation, new)
        try:
            at = await self._writer.append(
                AppendItem(
                    conversation.conversation_id, conversation.version, rows, account_id, lease, beginning
                )
            )
        except VersionConflict:
            return None
        return self._cache_next_state(conversation, new, rows), at or beginning.at

    async def append_stored(
        self, conversation_id: str, version: int, facts: Sequence[tuple[str, bytes]]
    ) -> None:
        """Store events as they are, as (topic, state), after `version`, all or none: see `append`."""
        rows = [mapper.build_row(topic, state) for topic, state in facts]
        await self._writer.append(AppendItem(conversation_id, version, rows, mapper.find_account(rows)))

    async def ping(self) -> None:
        """Check that Postgres answers."""
        await self._log.ping()

    def _cache_next_state(
        self, conversation: Conversation, new: Sequence[events.Event], rows: Sequence[EventRow]
    ) -> Conversation:
        following = evolve_all(conversation, new)
        stored = 0 if following.erased else conversation.stored_bytes + sum(len(row.state) for row in rows)
        following = replace(following, stored_bytes=stored)
        self._cache.put(following)
        return following


def _find_account(conversation: Conversation, new: Sequence[events.Event]) -> str | None:
    first = new[0]
    if isinstance(first, events.ConversationStarted | events.ConversationErased):
        return first.account_id
    return conversation.account_id


@contextlib.asynccontextmanager
async def open_store(
    database_url: str, condition: Condition | None = None
) -> AsyncIterator[ConversationStore]:
    """Open the store, whether or not Postgres is up yet.

    The cache is cleared if Postgres has failed over to a standby: that may lack the last events.
    """
    cache = Cache()
    watch = _TimelineWatch(cache).check_timeline
    options = f"{TRANSACTION} {PLANNED_ONCE}"
    async with (
        open_pool(database_url, max_size=1, options=options, on_connect=watch) as pool,
        open_log(database_url, max_size=LOAD_CONNECTIONS, on_connect=watch) as log,
    ):
        recorder = ConversationRecorder(ConversationDatastore(database_url), condition)
        writer = Writer(recorder, pool)
        try:
            yield ConversationStore(log, writer, cache)
        finally:
            await writer.aclose()


class _TimelineWatch:
    """Clears the cache when a new connection is to another timeline of Postgres.

    A promoted standby begins a timeline, and may lack events that this process has seen.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._timeline: str | None = None

    async def check_timeline(self, conn: Connection) -> None:
        """Compare the timeline of a new connection of a pool. Raises psycopg.Error."""
        row = await (await conn.execute(_TIMELINE)).fetchone()
        timeline = row[0] if row else None
        if self._timeline not in (None, timeline):
            self._cache.clear()
        self._timeline = timeline


_TIMELINE = "SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
