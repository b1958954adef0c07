"""The only writer of conversations: load one at its version, append events to it at that version."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.append_statement import AppendItem, Condition, LeaseChange, RunStart
from agentchat.conversations.event_store.conversation_cache import Cache
from agentchat.conversations.event_store.log import Log, open_log
from agentchat.conversations.event_store.mapper import EventRow
from agentchat.conversations.event_store.recorder import ConversationDatastore, ConversationRecorder
from agentchat.conversations.event_store.writer import PLANNED_ONCE, TRANSACTION, Writer
from agentchat.runtime.postgres import Connection, open_pool

LOAD_CONNECTIONS = 4


class ConversationStore:
    """Loads and appends. Postgres, away or frozen, is DatabaseUnavailable within five seconds."""

    def __init__(self, log: Log, writer: Writer, cache: Cache) -> None:
        self._log = log
        self._writer = writer
        self._cache = cache

    async def load(self, conversation_id: str) -> Conversation:
        """The conversation as it stands now; its version is 0 if it does not exist.

        One query, for the events since the state that is kept here, unless they fill several pages. Raises
        DatabaseUnavailable, UnreadableEvent.
        """
        while True:
            edition = self._cache.edition
            start = self._cache.get(conversation_id) or Conversation(conversation_id=conversation_id)
            conversation = await self._log.load_conversation(conversation_id, start)
            if edition == self._cache.edition:  # else it began with what may be lost
                break
        if conversation.version:
            self._cache.put(conversation)
        return conversation

    async def load_readable(self, conversation_id: str) -> Conversation:
        """One that `load` cannot read: see `Log.readable_conversation`. Raises DatabaseUnavailable.

        What is appended to it goes through `append_stored`: the state after it is not to be kept here.
        """
        return await self._log.load_readable_conversation(conversation_id)

    def get_cached(self, conversation_id: str) -> Conversation | None:
        """The newest state known here, which may be behind the log: an append to it then says so."""
        return self._cache.get(conversation_id)

    async def append(
        self, conversation: Conversation, new: Sequence[events.Event], *, release: LeaseChange | None = None
    ) -> Conversation:
        """Store the events after `conversation.version`, all or none, and return the state after them.

        With them a lease is released. To append what was already stored so is no error. Raises
        VersionConflict where something else was stored, UnstorableEvent where Postgres refuses them, and
        DatabaseUnavailable where it is unknown whether they were stored.
        """
        if not new:
            return conversation
        rows = mapper.encode_rows(new)
        account_id = _find_account(conversation, new)
        await self._writer.append(
            AppendItem(conversation.conversation_id, conversation.version, rows, account_id, release)
        )
        return self._cache_next_state(conversation, new, rows)

    async def start_run(
        self,
        conversation: Conversation,
        new: Sequence[events.Event],
        lease: LeaseChange,
        beginning: RunStart,
    ) -> tuple[Conversation, str] | None:
        """Take the lease and store the first events of a run, if nothing speaks against it.

        That is: the lease is to be had by the rules of `Leases.acquire`, nobody waits for the conversation,
        it is at this version, the condition holds, and the time is as it is said to be. The events name the
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
        """Store events as they are, in (topic, state), after `version`, all or none: see `append`."""
        rows = [mapper.build_row(topic, state) for topic, state in facts]
        await self._writer.append(AppendItem(conversation_id, version, rows, mapper.find_account(rows)))

    async def ping(self) -> None:
        """A health check."""
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
    """The store, with a connection to write and a few to load; opens whether or not Postgres is up yet.

    What it has cached is dropped where Postgres has changed to a standby: that may lack the last events.
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
    """Clear the cache when a connection is to another timeline of Postgres than the one before it.

    A standby that was promoted begins a timeline, and may lack events that this process has seen.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._timeline: str | None = None

    async def check_timeline(self, conn: Connection) -> None:
        """Look at a new connection of a pool. Raises psycopg.Error."""
        row = await (await conn.execute(_TIMELINE)).fetchone()
        timeline = row[0] if row else None
        if self._timeline not in (None, timeline):
            self._cache.clear()
        self._timeline = timeline


_TIMELINE = "SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
