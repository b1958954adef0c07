"""The log of all conversations, for readers: in the order of its positions, and by conversation.

Pages end at the settled position, below which nothing is appended any more (schema.sql): so nobody
who reads what comes after a position misses an event. Positions are not contiguous: appends that failed and
conversations that were erased leave gaps.
"""

import asyncio
import contextlib
import functools
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from psycopg import sql

from contracts import events
from conversations.aggregate.conversation import Conversation, evolve_all
from conversations.database import EVENTS_TABLE, FOUND, VISIBLE
from conversations.event_store import mapper
from conversations.event_store.load_budget import count_loaded
from conversations.event_store.snapshots import Snapshots
from runtime.fair_slots import FairSlots
from runtime.postgres import Connection, OnConnect, Pool, connection, open_pool, ping

PAGE_BYTES = 8 * 1024 * 1024
PAGE_ENTRIES = 1_000
LATER_PAGES_AT_ONCE = 2
"""Of the pages of a conversation after its first: so that connections are left for others."""
FOLDED_ON_THE_LOOP = 500
BYTES_ON_THE_LOOP = 512 * 1024
"""What is more than this is decoded and folded in a thread: `in_thread_if_large`."""
_TABLE = sql.Identifier(EVENTS_TABLE)

T = TypeVar("T")


class LogEntry(msgspec.Struct, frozen=True, dict=True):
    """One stored event; `state` is its JSON as stored, `topic` its tag.

    `account_id` is the conversation's account. It is None if the conversation's beginning could not be read.
    """

    position: int
    conversation_id: str
    version: int
    topic: str
    state: bytes
    account_id: str | None = None

    @functools.cached_property
    def event(self) -> events.Event:
        """The event itself, decoded once. Raises UnreadableEvent."""
        return mapper.event_of(self.topic, self.state)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the stored JSON, in hexadecimal."""
        return hashlib.sha256(self.state).hexdigest()


class Log:
    """A reader of the log. Every call raises DatabaseUnavailable where Postgres does not answer."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._later_pages = FairSlots(LATER_PAGES_AT_ONCE)
        self._in_thread = FairSlots(1)  # each one that computes makes the loop wait at each of its turns
        self.snapshots = Snapshots(pool)

    async def read(
        self, after: int, limit: int, *, without: Collection[str] = (), until: int | None = None
    ) -> list[LogEntry]:
        """Up to `limit` entries after position `after`, in order; fewer where they hold many bytes.

        Those with a topic in `without` come with an empty state: to read it would be for nothing. They end at
        the settled position, or at `until`, a position that was settled before.
        """
        async with connection(self._pool) as conn, conn.cursor(binary=True) as cursor:
            if until is None:
                until = await _settled(conn)
            await cursor.execute(_READ, (list(without), after, until, limit, PAGE_BYTES))
            return [LogEntry(*row) for row in await cursor.fetchall()]

    async def beginning(self, conversation_id: str, until_version: int) -> list[LogEntry]:
        """The rows of a conversation up to a version, and its last one; also of an unfinished fork."""
        return await self._entries(_BEGINNING, (conversation_id, until_version, conversation_id))

    async def at_versions(self, places: Collection[tuple[str, int]]) -> list[LogEntry]:
        """The entries of conversations at versions of theirs, but for those that have been erased."""
        ids, versions = [id_ for id_, _ in places], [version for _, version in places]
        return await self._entries(_AT_VERSIONS, (ids, versions))

    async def rows(
        self, conversation_id: str, after_version: int = 0, until_version: int | None = None
    ) -> list[LogEntry]:
        """The entries of a conversation with versions in (after_version, until_version]."""
        pages = self.pages(conversation_id, after_version, until_version)
        async with contextlib.aclosing(pages):
            return [entry async for page in pages for entry in page]

    async def pages(
        self,
        conversation_id: str,
        after_version: int = 0,
        until_version: int | None = None,
        *,
        account_id: str | None = None,
    ) -> AsyncGenerator[list[LogEntry], None]:
        """The same in pages of up to 8 MiB, in order; none is empty.

        A reader gives its connection back after each page. Later pages are read by a few at a time, by one of
        an account while others want to: `account_id`, where the first page does not have its start.
        """
        key = account_id or conversation_id
        entries = await self._page_of(conversation_id, after_version, until_version)
        if entries and entries[0].version == 1:
            key = entries[0].account_id or key
        while entries:
            after_version = entries[-1].version
            yield entries
            if not _fills_a_page(entries):
                return
            async with self._later_pages.turn(key):
                entries = await self._page_of(conversation_id, after_version, until_version)

    async def _page_of(
        self, conversation_id: str, after_version: int, until_version: int | None
    ) -> list[LogEntry]:
        parameters = (conversation_id, after_version, until_version, PAGE_ENTRIES, PAGE_BYTES)
        return await self._entries(_ROWS, parameters)

    async def rows_of_run(
        self, conversation_id: str, trace_id: str, after_version: int = 0
    ) -> list[LogEntry]:
        """The entries of a run, from its user message on, until its end; those after it are not looked at.

        Nor are descriptions: while a run waits for a person, there may be any number.

        With `after_version` those after that version: it must be in the run, or the one before. Where the
        conversation was erased, that entry alone.
        """
        named = {"conversation": conversation_id, "trace": trace_id, "after": after_version or None}
        return await self._entries(_ROWS_OF_RUN, named)

    async def is_under_way(self, conversation_id: str, trace_id: str) -> bool:
        """Whether a run has begun and has no end yet; False once it was erased."""
        named = {"conversation": conversation_id, "trace": trace_id}
        async with connection(self._pool) as conn:
            return await (await conn.execute(_IS_UNDER_WAY, named)).fetchone() == (True,)

    async def events(
        self, conversation_id: str, after_version: int = 0, until_version: int | None = None
    ) -> list[events.Event]:
        """The events of a conversation with versions in (after_version, until_version]."""
        return [entry.event for entry in await self.rows(conversation_id, after_version, until_version)]

    async def conversation(self, conversation_id: str, start: Conversation | None = None) -> Conversation:
        """The conversation as it stands now; its version is 0 if it does not exist.

        `start` is the state at an earlier version, from which it is folded on; where more than a page
        of events came later, from its newest snapshot. Raises UnreadableEvent, TooMuchLoaded.
        """
        return await self._folded(start or Conversation(conversation_id=conversation_id), _decoded)

    async def readable_conversation(self, conversation_id: str) -> Conversation:
        """The conversation at its version, without those of its events that cannot be decoded.

        It may lack anything but its account: nothing is to be told out of it but that a run is over.
        """
        start = Conversation(conversation_id=conversation_id)
        return await self._with_account(await self._folded(start, _readable))

    async def newest_run(self, conversation_id: str) -> Conversation:
        """The conversation at its version with its account, and of its runs the newest alone.

        What cannot be decoded is left out, and descriptions are. It takes as long as that run, however long
        the conversation is.
        """
        rows = await self._entries(_NEWEST_RUN, {"conversation": conversation_id})
        fold = functools.partial(_folded_on, Conversation(conversation_id=conversation_id), decode=_readable)
        return await self._with_account(await in_thread_if_large(fold, rows))

    async def _folded(self, conversation: Conversation, decode: "_Decode") -> Conversation:
        id_, looked = conversation.conversation_id, False
        key = conversation.account_id or id_
        count_loaded(conversation.stored_bytes)
        pages = self.pages(id_, after_version=conversation.version, account_id=conversation.account_id)
        async with contextlib.aclosing(pages):
            async for page in pages:
                count_loaded(conversation.stored_bytes + bytes_of(page))
                if not looked and _fills_a_page(page):
                    looked = True
                    key = conversation.account_id or page[0].account_id or id_
                    async with self._in_thread.turn(key):
                        snapshot = await self.snapshots.newest(id_)
                    if snapshot is not None and snapshot.version > page[-1].version:
                        return await self._folded(snapshot, decode)
                fold = functools.partial(_folded_on, conversation, decode=decode)
                if is_large(page):
                    async with self._in_thread.turn(key):
                        conversation = await asyncio.to_thread(fold, page)
                else:
                    conversation = fold(page)
        count_loaded(conversation.stored_bytes, whole=True)
        return conversation

    async def _with_account(self, conversation: Conversation) -> Conversation:
        """Also where its first event was not read."""
        if conversation.account_id is not None or not conversation.version:
            return conversation
        id_ = conversation.conversation_id
        return msgspec.structs.replace(conversation, account_id=(await self.accounts_of([id_])).get(id_))

    async def version_at(self, conversation_id: str, position: int) -> int:
        """The version that a conversation had come to at a log position, 0 where it had not begun.

        It takes as long as there are events of it after that.
        """
        async with connection(self._pool) as conn:
            row = await (await conn.execute(_VERSION_AT, [conversation_id, position])).fetchone()
        return int(row[0]) if row else 0

    async def head(self) -> int:
        """The last position, 0 for an empty log: what others are compared with. See `settled`."""
        async with connection(self._pool) as conn:
            row = await (await conn.execute(_HEAD)).fetchone()
        return int(row[0]) if row else 0

    async def settled(self) -> int:
        """A position at or below which nothing is appended any more: there a follower begins or a range ends.

        It may be less than it was, and more than `head`.
        """
        async with connection(self._pool) as conn:
            return await _settled(conn)

    async def conversation_ids(self, after: str, limit: int, account_id: str | None = None) -> list[str]:
        """Return up to `limit` ids of conversations after `after`, of one account or of all, in order.

        Erased conversations are among them.
        """
        named = {"after": after, "account": account_id, "limit": limit}
        async with connection(self._pool) as conn:
            return [row[0] for row in await (await conn.execute(_IDS, named)).fetchall()]

    async def accounts_of(self, conversation_ids: Collection[str]) -> dict[str, str]:
        """Return the account of each conversation that is in the log and whose account is known."""
        async with connection(self._pool) as conn:
            rows = await (await conn.execute(_ACCOUNTS, (list(conversation_ids),))).fetchall()
        return {conversation_id: account for conversation_id, account in rows if account is not None}

    async def ping(self) -> None:
        """A health check."""
        await ping(self._pool)

    async def _entries(
        self, query: sql.Composed, parameters: Sequence[object] | Mapping[str, object]
    ) -> list[LogEntry]:
        async with connection(self._pool) as conn, conn.cursor(binary=True) as cursor:
            await cursor.execute(query, parameters)
            return [LogEntry(*row) for row in await cursor.fetchall()]


async def _settled(conn: Connection) -> int:
    """A statement of its own: the next one sees all that is at or below it."""
    row = await (await conn.execute("SELECT settled_position()")).fetchone()
    assert row is not None, "a function gives one row"
    return int(row[0])


@contextlib.asynccontextmanager
async def open_log(
    database_url: str, *, max_size: int = 4, on_connect: OnConnect | None = None
) -> AsyncIterator[Log]:
    """A reader with a pool of its own; opens whether or not Postgres can be reached yet."""
    async with open_pool(database_url, max_size=max_size, on_connect=on_connect) as pool:
        yield Log(pool)


def bytes_of(entries: Collection[LogEntry]) -> int:
    """What their events take as stored."""
    return sum(len(entry.state) for entry in entries)


def _fills_a_page(entries: Collection[LogEntry]) -> bool:
    return len(entries) >= PAGE_ENTRIES or bytes_of(entries) >= PAGE_BYTES


async def in_thread_if_large(work: Callable[[list[LogEntry]], T], page: list[LogEntry]) -> T:
    """`work(page)`, which decodes it: not on the loop where that would take long."""
    return await asyncio.to_thread(work, page) if is_large(page) else work(page)


def is_large(page: list[LogEntry]) -> bool:
    """Whether to decode it takes more than a few milliseconds."""
    return len(page) > FOLDED_ON_THE_LOOP or bytes_of(page) > BYTES_ON_THE_LOOP


_Decode = Callable[[list[LogEntry]], Iterable[events.Event]]


def _decoded(page: list[LogEntry]) -> Iterable[events.Event]:
    return (entry.event for entry in page)


def _readable(page: list[LogEntry]) -> Iterable[events.Event]:
    return mapper.readable_of((entry.topic, entry.state) for entry in page)[0]


def _folded_on(start: Conversation, page: list[LogEntry], *, decode: _Decode) -> Conversation:
    conversation = at_version_of(evolve_all(start, decode(page)), page)
    stored = 0 if conversation.erased else start.stored_bytes + bytes_of(page)
    return msgspec.structs.replace(conversation, stored_bytes=stored)


def at_version_of(conversation: Conversation, rows: list[LogEntry]) -> Conversation:
    """The conversation at the version of its last row: what was erased still counts."""
    return msgspec.structs.replace(conversation, version=rows[-1].version) if rows else conversation


_OF_RUNS = sql.SQL(
    "topic NOT LIKE 'conversation_described.v%%' AND topic NOT LIKE 'feedback_given.v%%'"
    " AND topic NOT LIKE 'feedback_withdrawn.v%%'"
)
"""Without what is said of a conversation and its replies at any time."""
_COLUMNS = sql.SQL("notification_id, originator_id, originator_version, topic, state, account_id")
_READ = sql.SQL(
    "SELECT notification_id, originator_id, originator_version, topic,"
    "       CASE WHEN topic = ANY(%s) THEN ''::bytea ELSE state END, account_id FROM ("
    "  SELECT *, sum(octet_length(state)) OVER (ORDER BY notification_id) - octet_length(state) AS before"
    "    FROM (SELECT * FROM {table} WHERE notification_id > %s AND notification_id <= %s AND {visible}"
    "           ORDER BY notification_id LIMIT %s) AS page"
    ") AS measured WHERE before < %s ORDER BY notification_id"
).format(table=_TABLE, visible=VISIBLE)
_BEGINNING = sql.SQL(
    "SELECT {columns} FROM {table} WHERE originator_id = %s AND (originator_version <= %s"
    " OR originator_version = (SELECT max(originator_version) FROM {table} WHERE originator_id = %s))"
    " ORDER BY originator_version"
).format(columns=_COLUMNS, table=_TABLE)
_AT_VERSIONS = sql.SQL(
    "SELECT {} FROM unnest(%s::text[], %s::bigint[]) AS wanted (id, version)"
    " JOIN {} ON originator_id = wanted.id AND originator_version = wanted.version AND {}"
).format(_COLUMNS, _TABLE, VISIBLE)
# The size of a value that is stored out of line is known without fetching it.
_ROWS = sql.SQL(
    "SELECT {columns} FROM ("
    "  SELECT *, sum(octet_length(state)) OVER (ORDER BY originator_version) - octet_length(state) AS before"
    "    FROM (SELECT {columns} FROM {table} WHERE originator_id = %s AND originator_version > %s AND {found}"
    "             AND originator_version <= coalesce(%s::bigint, 9223372036854775807)"
    "           ORDER BY originator_version LIMIT %s) AS page"
    ") AS measured WHERE before < %s ORDER BY originator_version"
).format(columns=_COLUMNS, table=_TABLE, found=FOUND)
# A run's start and end by an index of the trace. Its message is before its start.
_BY_TRACE = sql.SQL(
    "WITH begun AS MATERIALIZED ("
    "  SELECT originator_id AS id, originator_version AS version FROM {table}"
    "   WHERE trace_id = %(trace)s AND topic = 'run_started.v1' AND {found}"
    "), ended AS MATERIALIZED ("
    "  SELECT originator_id AS id, originator_version AS version FROM {table}"
    "   WHERE trace_id = %(trace)s"
    "     AND topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1') AND {found}) "
).format(table=_TABLE, found=FOUND)
_ROWS_OF_RUN = _BY_TRACE + sql.SQL(
    "SELECT {columns} FROM {table} WHERE originator_id = %(conversation)s"
    " AND originator_version > coalesce(%(after)s::bigint,"
    "  (SELECT min(version) - 2 FROM begun WHERE id = %(conversation)s))"
    " AND originator_version <= coalesce("
    "  (SELECT min(version) FROM ended WHERE id = %(conversation)s), 9223372036854775807)"
    " AND topic <> 'conversation_erased.v1' AND {of_runs} AND {found}"
    " UNION ALL SELECT {columns} FROM {table}"
    " WHERE originator_id = %(conversation)s AND topic = 'conversation_erased.v1'"
    " ORDER BY originator_version"
).format(columns=_COLUMNS, table=_TABLE, found=FOUND, of_runs=_OF_RUNS)
_IS_UNDER_WAY = _BY_TRACE + sql.SQL(
    "SELECT NOT EXISTS (SELECT FROM ended WHERE id = %(conversation)s)"
    " AND EXISTS (SELECT FROM begun WHERE id = %(conversation)s)"
)
# The last event has the version, whatever it is.
_NEWEST_RUN = sql.SQL(
    "WITH last AS (SELECT max(originator_version) AS version FROM {table}"
    "  WHERE originator_id = %(conversation)s) "
    "SELECT {columns} FROM {table} WHERE originator_id = %(conversation)s AND {found}"
    " AND originator_version >= coalesce("
    "  (SELECT originator_version FROM {table}"
    "    WHERE originator_id = %(conversation)s AND topic LIKE 'message_saved.v%%' AND {found}"
    "    ORDER BY originator_version DESC LIMIT 1), (SELECT version FROM last))"
    " AND ({of_runs} OR originator_version = (SELECT version FROM last))"
    " ORDER BY originator_version"
).format(columns=_COLUMNS, table=_TABLE, found=FOUND, of_runs=_OF_RUNS)
_VERSION_AT = sql.SQL(
    "SELECT originator_version FROM {} WHERE originator_id = %s AND notification_id <= %s AND {}"
    " ORDER BY originator_version DESC LIMIT 1"
).format(_TABLE, FOUND)
_HEAD = sql.SQL("SELECT coalesce(max(notification_id), 0) FROM {}").format(_TABLE)
_ACCOUNTS = sql.SQL(
    "SELECT id, (SELECT account_id FROM {} WHERE originator_id = id AND {}"
    "             ORDER BY originator_version LIMIT 1)"
    " FROM unnest(%s::text[]) AS id"
).format(_TABLE, VISIBLE)
_IDS = sql.SQL(
    "SELECT DISTINCT originator_id FROM {} WHERE originator_id > %(after)s"
    " AND (%(account)s::text IS NULL OR account_id = %(account)s) ORDER BY 1 LIMIT %(limit)s"
).format(_TABLE)
