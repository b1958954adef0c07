"""The only writer of conversations: load one at its version, append events to it at that version."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from eventsourcing.persistence import StoredEvent

from contracts import events
from conversations import mapper
from conversations.cache import Cache
from conversations.conversation import Conversation, evolve_all
from conversations.errors import StoreUnavailable
from conversations.log import Log, at_version_of, open_log
from conversations.recorder import Datastore
from conversations.writer import Append, Writer

LOAD_CONNECTIONS = 4
_APPEND_SECONDS = 5.0  # the writer's own bound is lower; this one holds if it should fail
_WATCH_SECONDS = 0.25


class ConversationStore:
    """Loads and appends. Postgres, away or frozen, is StoreUnavailable within five seconds."""

    def __init__(self, log: Log, writer: Writer) -> None:
        self._log = log
        self._writer = writer
        self._cache = Cache()

    async def load(self, conversation_id: str) -> Conversation:
        """The conversation as it stands now; its version is 0 if it does not exist.

        One query, for the events since the state that is kept here. Raises StoreUnavailable, UnreadableEvent.
        """
        start = self._cache.get(conversation_id) or Conversation(conversation_id=conversation_id)
        rows = await self._log.rows(conversation_id, after_version=start.version)
        conversation = at_version_of(evolve_all(start, (row.event for row in rows)), rows)
        self._cache.put(conversation, sum(len(row.state) for row in rows))
        return conversation

    async def load_readable(self, conversation_id: str) -> Conversation:
        """One that `load` cannot read: see `Log.readable_conversation`. Raises StoreUnavailable.

        What is appended to it goes through `append_stored`: the state after it is not to be kept here.
        """
        return await self._log.readable_conversation(conversation_id)

    async def append(self, conversation: Conversation, new: Sequence[events.Event]) -> Conversation:
        """Store the events behind `conversation.version`, all or none, and return the state after them.

        To append what was already stored so is no error. Raises VersionConflict where something else was
        stored, UnstorableEvent where Postgres refuses them, and StoreUnavailable where it is unknown whether
        they were stored.
        """
        if not new:
            return conversation
        facts = mapper.stored(new)
        await self.append_stored(conversation.conversation_id, conversation.version, facts)
        following = evolve_all(conversation, new)
        self._cache.put(following, sum(len(state) for _, state in facts))
        return following

    async def append_stored(
        self, conversation_id: str, version: int, facts: Sequence[tuple[str, bytes]]
    ) -> None:
        """Store events as they are, in (topic, state), behind `version`, all or none: see `append`."""
        append = Append(conversation_id, version, _stored(conversation_id, version, facts))
        self._writer.submit(append)
        try:
            async with asyncio.timeout(_APPEND_SECONDS):
                await append.done
        except TimeoutError as error:
            raise StoreUnavailable("the append was not confirmed in time") from error

    async def ping(self) -> None:
        """A health check."""
        await self._log.ping()


@contextlib.asynccontextmanager
async def open_store(database_url: str) -> AsyncIterator[ConversationStore]:
    """The store, with a connection to write and a few to load; opens whether or not Postgres is up yet."""
    datastore = Datastore(database_url)
    writer = Writer(datastore)
    watch = asyncio.create_task(_watch(datastore))
    try:
        async with open_log(database_url, max_size=LOAD_CONNECTIONS) as log:
            yield ConversationStore(log, writer)
    finally:
        await asyncio.to_thread(writer.close)
        watch.cancel()
        await asyncio.to_thread(datastore.close)


async def _watch(datastore: Datastore) -> None:
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        datastore.cut_overdue()


def _stored(conversation_id: str, version: int, facts: Sequence[tuple[str, bytes]]) -> list[StoredEvent]:
    return [
        StoredEvent(originator_id=conversation_id, originator_version=number, topic=topic, state=state)
        for number, (topic, state) in enumerate(facts, start=version + 1)
    ]
