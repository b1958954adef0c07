"""Read the log of all conversations: in the order of its positions, and by conversation.

Pages end at the settled position, at or below which nothing is appended any more (schema.sql), so a reader
who continues after a position misses no event. Positions are not contiguous: failed appends and erased
conversations leave gaps. The statements are in event_log.sql.

`event_store.append_writer` appends to it; `projections.read_model_follower`, `projector.feed_publisher` and
`webhooks.delivery_projection` follow it.
"""

import asyncio
import contextlib
import functools
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from agentchat.contracts import events
from agentchat.contracts.ownership import Owner
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.event_store import mapper
from agentchat.conversations.postgres_sessions import load_statements
from agentchat.runtime.postgres import Connection, OnConnect, Pool, acquire_connection, open_pool, ping

PAGE_BYTES = 8 * 1024 * 1024
PAGE_ENTRIES = 1_000
FOLDED_ON_THE_LOOP = 500
BYTES_ON_THE_LOOP = 512 * 1024
"""Larger pages are decoded and folded in a thread: `run_in_thread_if_large`."""
TURN_BYTES = 256 * 1024
"""Bytes of stored events decoded in one turn of the loop: a few milliseconds."""

_SQL = load_statements(__file__)
_READ, _ROWS, _NEWEST_RUN = _SQL["read"], _SQL["rows"], _SQL["newest_run"]
_ROWS_OF_RUN = _SQL["rows_of_run"]

T = TypeVar("T")


class LogEntry(msgspec.Struct, frozen=True, dict=True):
    """One stored event; `state` is its JSON as stored, `topic` its tag.

    `account_id` is the conversation's account, None if the conversation's first event could not be read.
    `erased`: its conversation is erased and the row not deleted yet. Only `Log.read` returns such entries.
    """

    position: int
    conversation_id: str
    version: int
    topic: str
    state: bytes
    account_id: str | None = None
    erased: bool = False

    @functools.cached_property
    def event(self) -> events.Event:
        """The event itself, decoded once. Raises UnreadableEvent."""
        return mapper.decode_stored(self.topic, self.state)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the stored JSON, in hexadecimal."""
        return hashlib.sha256(self.state).hexdigest()


class EntryPage(list[LogEntry]):
    """A page of the log in order of positions; `is_last` if the log had no more when it was read."""

    def __init__(self, entries: Iterable[LogEntry], *, is_last: bool) -> None:
        super().__init__(entries)
        self.is_last = is_last


class Log:
    """A reader of the log. Every call raises DatabaseUnavailable if Postgres does not answer."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(
        self, after: int, limit: int, *, without: Collection[str] = (), until: int | None = None
    ) -> EntryPage:
        """Read up to `limit` entries after position `after`, in order.

        Fewer if they hold many bytes. Entries of erased conversations are included while their rows exist:
        the ledger of runs counts their costs. Publishers must skip entries that are `erased`.

        Entries with a topic in `without` have an empty state. The page ends at the settled position, or at
        `until`, a position that was settled before.
        """
        async with acquire_connection(self._pool) as conn, conn.cursor(binary=True) as cursor:
            if until is None:
                until = await _read_settled(conn)
            await cursor.execute(_READ, (list(without), after, until, limit, PAGE_BYTES))
            rows = await cursor.fetchall()
        found = rows[0][-1] if rows else 0  # up to `limit`, of which the page holds PAGE_BYTES
        return EntryPage((LogEntry(*row[:-1]) for row in rows), is_last=found == len(rows) < limit)

    async def read_pages(
        self, conversation_id: str, after_version: int = 0, until_version: int | None = None
    ) -> AsyncGenerator[list[LogEntry], None]:
        """Yield the entries of a conversation with versions in (after_version, until_version].

        A page has up to 8 MiB, and none is empty. The connection is returned after each page.
        """
        while True:
            parameters = (conversation_id, after_version, until_version, PAGE_ENTRIES, PAGE_BYTES)
            entries = await self._fetch_entries(_ROWS, parameters)
            if entries:
                yield entries
            if len(entries) < PAGE_ENTRIES and sum_bytes(entries) < PAGE_BYTES:
                return
            after_version = entries[-1].version

    async def read_rows(
        self, conversation_id: str, after_version: int = 0, until_version: int | None = None
    ) -> list[LogEntry]:
        """Read the entries of a conversation with versions in (after_version, until_version]."""
        pages = self.read_pages(conversation_id, after_version, until_version)
        async with contextlib.aclosing(pages):
            return [entry async for page in pages for entry in page]

    async def read_events(
        self, conversation_id: str, after_version: int = 0, until_version: int | None = None
    ) -> list[events.Event]:
        """Read the events of a conversation with versions in (after_version, until_version]."""
        return [entry.event for entry in await self.read_rows(conversation_id, after_version, until_version)]

    async def read_run_rows(
        self, conversation_id: str, trace_id: str, after_version: int = 0
    ) -> list[LogEntry]:
        """Read the entries of a run, from its user message to its end, without descriptions and feedback.

        With `after_version` those after that version, which must be in the run, or the one before it. If the
        conversation was erased, only the tombstone.
        """
        named = {"conversation": conversation_id, "trace": trace_id, "after": after_version or None}
        return await self._fetch_entries(_ROWS_OF_RUN, named)

    async def read_at_versions(self, places: Collection[tuple[str, int]]) -> list[LogEntry]:
        """Read the entries at (conversation, version) places, without those of erased conversations."""
        ids, versions = [id_ for id_, _ in places], [version for _, version in places]
        return await self._fetch_entries(_SQL["at_versions"], (ids, versions))

    async def is_under_way(self, conversation_id: str, trace_id: str) -> bool:
        """Return True if a run has begun and has no end yet; False once it was erased."""
        named = {"conversation": conversation_id, "trace": trace_id}
        return bool(await self._fetch_value(_SQL["is_under_way"], named))

    async def has_message_since(self, conversation_id: str, since: str) -> bool:
        """Return True if a message was saved at this ISO 8601 time or later."""
        named = {"conversation": conversation_id, "since": since}
        return bool(await self._fetch_value(_SQL["has_message_since"], named))

    async def load_conversation(
        self, conversation_id: str, start: Conversation | None = None
    ) -> Conversation:
        """Load the current state of the conversation; its version is 0 if it does not exist.

        `start` is an earlier state to continue from. Raises UnreadableEvent.
        """
        return await self._fold(start or Conversation(conversation_id=conversation_id), _decode_all)

    async def load_readable_conversation(self, conversation_id: str) -> Conversation:
        """Load the conversation at its version, without the events that cannot be decoded.

        It may lack anything but its owner: use it only to end a run.
        """
        start = Conversation(conversation_id=conversation_id)
        return await self._add_owner(await self._fold(start, _decode_readable))

    async def load_newest_run(self, conversation_id: str) -> Conversation:
        """Load the conversation at its version with its owner, and of its runs only the newest.

        Events that cannot be decoded, and descriptions, are left out. The time does not depend on the length
        of the conversation.
        """
        rows = await self._fetch_entries(_NEWEST_RUN, {"conversation": conversation_id})
        fold = functools.partial(
            _fold_page, Conversation(conversation_id=conversation_id), decode=_decode_readable
        )
        return await self._add_owner(await run_in_thread_if_large(fold, rows))

    async def read_head(self) -> int:
        """Return the last position, 0 for an empty log. See `read_settled_position`."""
        return int(await self._fetch_value(_SQL["head"], ()) or 0)

    async def read_settled_position(self) -> int:
        """Return a position at or below which nothing is appended any more.

        It may be less than before, and more than the head.
        """
        async with acquire_connection(self._pool) as conn:
            return await _read_settled(conn)

    async def list_conversation_ids(self, after: str, limit: int, account_id: str | None = None) -> list[str]:
        """Return up to `limit` ids after `after`, of one account or of all, in order.

        Erased conversations are included.
        """
        named = {"after": after, "account": account_id, "limit": limit}
        async with acquire_connection(self._pool) as conn:
            cursor = await conn.execute(_SQL["conversation_ids"], named)
            return [row[0] for row in await cursor.fetchall()]

    async def find_owners(self, conversation_ids: Collection[str]) -> dict[str, Owner]:
        """Return the owner of each conversation that is in the log and whose account is known."""
        async with acquire_connection(self._pool) as conn:
            cursor = await conn.execute(_SQL["owners"], (list(conversation_ids),))
            found = await cursor.fetchall()
        return {id_: Owner(account, user) for id_, account, user in found if account is not None}

    async def ping(self) -> None:
        """Check that Postgres answers."""
        await ping(self._pool)

    async def _fold(self, conversation: Conversation, decode: "_Decode") -> Conversation:
        pages = self.read_pages(conversation.conversation_id, after_version=conversation.version)
        async with contextlib.aclosing(pages):
            async for page in pages:
                fold = functools.partial(_fold_page, conversation, decode=decode)
                conversation = await run_in_thread_if_large(fold, page)
        return conversation

    async def _add_owner(self, conversation: Conversation) -> Conversation:
        """Add the account and its user if the first event was not read."""
        if conversation.account_id is not None or not conversation.version:
            return conversation
        owner = (await self.find_owners([conversation.conversation_id])).get(conversation.conversation_id)
        if owner is None:
            return conversation
        return msgspec.structs.replace(conversation, account_id=owner.account_id, user_id=owner.user_id)

    async def _fetch_entries(
        self, query: bytes, parameters: Sequence[object] | Mapping[str, object]
    ) -> list[LogEntry]:
        async with acquire_connection(self._pool) as conn, conn.cursor(binary=True) as cursor:
            await cursor.execute(query, parameters)
            return [LogEntry(*row) for row in await cursor.fetchall()]

    async def _fetch_value(self, query: bytes, parameters: Sequence[object] | Mapping[str, object]) -> Any:
        async with acquire_connection(self._pool) as conn:
            row = await (await conn.execute(query, parameters)).fetchone()
        return row[0] if row else None


async def _read_settled(conn: Connection) -> int:
    """Return the settled position, by a statement of its own.

    The next one sees everything up to it.
    """
    row = await (await conn.execute("SELECT settled_position()")).fetchone()
    assert row is not None, "a function gives one row"
    return int(row[0])


@contextlib.asynccontextmanager
async def open_log(
    database_url: str, *, max_size: int = 4, on_connect: OnConnect | None = None
) -> AsyncIterator[Log]:
    """Open a reader with a pool of its own, whether or not Postgres can be reached yet."""
    async with open_pool(database_url, max_size=max_size, on_connect=on_connect) as pool:
        yield Log(pool)


def sum_bytes(entries: Collection[LogEntry]) -> int:
    """Return the bytes of the events as stored."""
    return sum(len(entry.state) for entry in entries)


async def run_in_thread_if_large(work: Callable[[list[LogEntry]], T], page: list[LogEntry]) -> T:
    """Return `work(page)`, which decodes the page.

    In a thread if that takes more than milliseconds.
    """
    is_large = len(page) > FOLDED_ON_THE_LOOP or sum_bytes(page) > BYTES_ON_THE_LOOP
    return await asyncio.to_thread(work, page) if is_large else work(page)


async def iterate_in_turns(rows: Sequence[LogEntry]) -> AsyncIterator[LogEntry]:
    """Yield the rows, and let other tasks use the loop after every TURN_BYTES."""
    taken = 0
    for row in rows:
        taken += len(row.state)
        if taken >= TURN_BYTES:
            taken = 0
            await asyncio.sleep(0)
        yield row


_Decode = Callable[[list[LogEntry]], Iterable[events.Event]]


def _decode_all(page: list[LogEntry]) -> Iterable[events.Event]:
    return (entry.event for entry in page)


def _decode_readable(page: list[LogEntry]) -> Iterable[events.Event]:
    return mapper.decode_readable((entry.topic, entry.state) for entry in page)[0]


def _fold_page(start: Conversation, page: list[LogEntry], *, decode: _Decode) -> Conversation:
    conversation = set_version(evolve_all(start, decode(page)), page)
    stored = 0 if conversation.erased else start.stored_bytes + sum_bytes(page)
    return msgspec.structs.replace(conversation, stored_bytes=stored)


def set_version(conversation: Conversation, rows: list[LogEntry]) -> Conversation:
    """Return the conversation at the version of its last row: erased events still count."""
    return msgspec.structs.replace(conversation, version=rows[-1].version) if rows else conversation
