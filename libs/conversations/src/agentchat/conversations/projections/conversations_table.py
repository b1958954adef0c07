"""The read model `conversations`.

One row for each, for lists and for the space it takes in the log. Lists leave out those that are not `listed`
(`ids.is_unlisted`). `bytes` are added up by account on request, so that an erasure subtracts exactly what was
counted; no index covers a column that changes often.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from agentchat.contracts import events, ids
from agentchat.conversations.aggregate.conversation import ForkedFrom
from agentchat.conversations.database import lift_time_limits
from agentchat.conversations.projections.feedback_table import WITH_RATING, Rating
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

TITLE_LENGTH = 80
_SUM_SECONDS = 60.0

_TABLES = """
CREATE TABLE conversations (
    conversation_id text PRIMARY KEY,
    account_id text NOT NULL,
    title text,
    agent_id text,
    message_count integer NOT NULL,
    created_at text NOT NULL,
    updated_at text NOT NULL,
    given_title text,
    metadata jsonb NOT NULL DEFAULT '{}',
    source_id text,
    source_version bigint,
    user_id text,
    external_id text,
    listed boolean NOT NULL,
    events bigint NOT NULL,
    bytes bigint NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX conversations_account_idx ON conversations (account_id, created_at DESC, conversation_id DESC)
    WHERE listed;
CREATE INDEX conversations_agent_idx
    ON conversations (account_id, agent_id, created_at DESC, conversation_id DESC);
CREATE INDEX conversations_owner_idx ON conversations (account_id);
CREATE INDEX conversations_unlisted_idx ON conversations (conversation_id) WHERE NOT listed;
CREATE INDEX conversations_metadata_idx ON conversations USING gin (metadata jsonb_path_ops)
    WHERE metadata <> '{}';
CREATE INDEX conversations_user_idx
    ON conversations (account_id, user_id, created_at DESC, conversation_id DESC)
    WHERE user_id IS NOT NULL;
CREATE INDEX conversations_external_idx ON conversations (account_id, external_id)
    WHERE external_id IS NOT NULL;
CREATE INDEX conversations_source_idx ON conversations (source_id) WHERE source_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON conversations TO agentchat_service;
"""


class ConversationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in a list. Times are ISO 8601 UTC.

    `title` is the one that was set, or the beginning of its first message. `agent_id` is that of the last
    message, `updated_at` its time. `user_id` is the end user who started it, `external_id` the account's own
    name for it.
    """

    conversation_id: str
    title: str | None
    agent_id: str | None
    message_count: int
    created_at: str
    updated_at: str
    metadata: dict[str, str] = {}
    forked_from: ForkedFrom | None = None
    user_id: str | None = None
    external_id: str | None = None


class ConversationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions on the conversations of a list; all that are given must hold.

    `agent_id` is that of the last message. `created_from` is inclusive, `created_before` is not; both are in
    the form of `created_at`. `title` is a part of the title, in upper or lower case. `rating` is that of one
    of its replies.
    """

    user_id: str | None = None
    external_id: str | None = None
    metadata: Mapping[str, str] = {}
    source_id: str | None = None
    agent_id: str | None = None
    created_from: str | None = None
    created_before: str | None = None
    title: str | None = None
    rating: Rating | None = None

    def build_conditions(self) -> list[tuple[sql.SQL, object]]:
        """Return each condition with its value.

        `created_before` is a bound of the list's order instead.
        """
        found: list[tuple[sql.SQL, object | None]] = [
            (_OF_USER, self.user_id),
            (_WITH_EXTERNAL_ID, self.external_id),
            (_WITH_METADATA, Jsonb(dict(self.metadata)) if self.metadata else None),
            (_FORKS_OF, self.source_id),
            (_OF_AGENT, self.agent_id),
            (_CREATED_FROM, self.created_from),
            (_WITH_TITLE, self.title),
            (_WITH_RATING, self.rating),
        ]
        return [(condition, value) for condition, value in found if value is not None]


ALL = ConversationFilter()


async def list_account_conversations(
    pool: Pool,
    account_id: str,
    *,
    limit: int,
    before: tuple[str, str] | None = None,
    matching: ConversationFilter | None = None,
) -> list[ConversationRow]:
    """List up to `limit` conversations of an account, the newest first, without erased ones.

    `before` is (created_at, conversation_id) of the last one of the page before. Raises DatabaseUnavailable.
    """
    matching = matching or ALL
    place = before or _LAST
    if matching.created_before is not None:
        place = min(place, (matching.created_before, ""))
    found = matching.build_conditions()
    query = sql.Composed([_SELECT, *(condition for condition, _ in found), _ORDER])
    async with acquire_connection(pool) as conn, conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, (account_id, *place, *(value for _, value in found), limit))
        return [_build_row(row) for row in await cursor.fetchall()]


def _build_row(columns: dict[str, Any]) -> ConversationRow:
    source_id, version = columns.pop("source_id"), columns.pop("source_version")
    forked_from = None if source_id is None else ForkedFrom(source_id, version or 0)
    return ConversationRow(**columns, forked_from=forked_from)


async def count_conversations(conn: Connection, account_id: str) -> int:
    """Count the account's conversations, unlisted ones too, without erased ones."""
    row = await (await conn.execute(_COUNT, [account_id])).fetchone()
    return int(row[0]) if row else 0


class AccountStorage(msgspec.Struct, frozen=True, kw_only=True):
    """The space of an account in the log.

    `bytes` are those of its events' JSON, copies in forks included.
    """

    conversations: int
    events: int
    bytes: int


NOTHING = AccountStorage(conversations=0, events=0, bytes=0)


async def sum_stored_by_account(pool: Pool, account_id: str | None = None) -> dict[str, AccountStorage]:
    """Sum what one account or each has stored, as far as the projector has read the log.

    That takes a second for some 2,000,000 conversations. Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool, seconds=_SUM_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        rows = await (await conn.execute(_STORED, {"account": account_id})).fetchall()
    return {
        account: AccountStorage(conversations=conversations, events=stored_events, bytes=stored_bytes)
        for account, conversations, stored_events, stored_bytes in rows
    }


async def find_conversations_with_agent(
    conn: Connection, account_id: str, agent_id: str, *, limit: int
) -> tuple[int, tuple[str, ...]]:
    """Count an account's conversations whose last message is this agent's.

    Return the newest ids.
    """
    named = {"account": account_id, "agent": agent_id, "limit": limit}
    cursor = await conn.execute(_WITH_AGENT, named)
    rows = await cursor.fetchall()
    return (rows[0][0] if rows else 0), tuple(row[1] for row in rows)


async def is_behind(conn: Connection, position: int, name: str = "conversations") -> bool:
    """Return True if a read model does not have everything up to this position of the log yet."""
    cursor = await conn.execute(
        "SELECT coalesce((SELECT position FROM projection_positions WHERE name = %s), 0) < %s",
        [name, position],
    )
    return await cursor.fetchone() == (True,)


class _Change(msgspec.Struct):
    """The changes of one row by a batch."""

    conversation_id: str
    account_id: str
    created_at: str
    updated_at: str
    listed: bool
    title: str | None = None
    agent_id: str | None = None
    user_id: str | None = None
    external_id: str | None = None
    message_count: int = 0
    events: int = 0
    bytes: int = 0


class _Fork(msgspec.Struct):
    """The source of a fork."""

    conversation_id: str
    source_id: str
    source_version: int


class _Description(msgspec.Struct):
    """The newest title and metadata of a conversation."""

    conversation_id: str
    given_title: str | None
    metadata: dict[str, str]


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    changes: dict[str, _Change] = {}
    described: dict[str, _Description] = {}
    forks: dict[str, _Fork] = {}
    for fact in facts:
        change = changes.get(fact.conversation_id)
        if change is None:
            at, listed = fact.event.at, not ids.is_unlisted(fact.conversation_id)
            change = _Change(fact.conversation_id, fact.account_id, at, at, listed)
            changes[fact.conversation_id] = change
        change.events += 1
        change.bytes += fact.size
        match fact.event:
            case events.ConversationStarted(user_id=user_id, external_id=external_id) as started:
                change.user_id, change.external_id = user_id, external_id
                if started.title is not None or started.metadata:
                    described[fact.conversation_id] = _describe(fact.conversation_id, started)
            case events.ConversationForked(source_id=source_id, source_version=source_version):
                forks[fact.conversation_id] = _Fork(fact.conversation_id, source_id, source_version)
            case events.ConversationDescribed() as changed:
                described[fact.conversation_id] = _describe(fact.conversation_id, changed)
            case events.MessageSaved() as message:
                _add_message(change, message)
            case _:
                pass
    return [
        *put(_UPSERT, list(changes.values())),
        *put(_DESCRIBE, list(described.values())),
        *put(_FORK, list(forks.values())),
    ]


def _describe(
    conversation_id: str, event: events.ConversationStarted | events.ConversationDescribed
) -> _Description:
    return _Description(conversation_id, event.title, event.metadata)


def _add_message(change: _Change, message: events.MessageSaved) -> None:
    change.updated_at = max(change.updated_at, message.at)  # a fork copies older messages
    change.message_count += 1
    change.agent_id = message.agent_id
    if change.title is None and message.role == "user":
        change.title = message.content[:TITLE_LENGTH]


PROJECTION = Projection(
    name="conversations",
    tables=_TABLES,
    takes=frozenset(events.EVENTS),
    takes_inherited=True,
    changes=_build_statements,
)

_UPSERT = insert(
    "conversations",
    "conversation_id text, account_id text, title text, agent_id text, user_id text, external_id text, "
    "message_count integer, created_at text, updated_at text, listed boolean, events bigint, bytes bigint",
    """(conversation_id) DO UPDATE
   SET title = coalesce(kept.title, excluded.title),
       agent_id = coalesce(excluded.agent_id, kept.agent_id),
       user_id = coalesce(kept.user_id, excluded.user_id),
       external_id = coalesce(kept.external_id, excluded.external_id),
       message_count = kept.message_count + excluded.message_count,
       updated_at = CASE WHEN excluded.message_count > 0 THEN greatest(kept.updated_at, excluded.updated_at)
                         ELSE kept.updated_at END,
       events = kept.events + excluded.events,
       bytes = kept.bytes + excluded.bytes""",
)

# After the insert of the row, which precedes it in the log.
_DESCRIBE = """
UPDATE conversations SET given_title = new.given_title, metadata = new.metadata
  FROM json_to_recordset(%s) AS new(conversation_id text, given_title text, metadata jsonb)
 WHERE conversations.conversation_id = new.conversation_id
"""

_FORK = """
UPDATE conversations SET source_id = new.source_id, source_version = new.source_version
  FROM json_to_recordset(%s) AS new(conversation_id text, source_id text, source_version bigint)
 WHERE conversations.conversation_id = new.conversation_id
"""

# Sorts after every key: times are ISO 8601, which begins with a digit.
_LAST = ("~", "~")

# The log decides: the read model may not have the erasure yet.
NOT_ERASED = sql.SQL("""
NOT EXISTS (SELECT FROM conversation_events
             WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')
""")

_SELECT = sql.SQL("""
SELECT conversation_id, coalesce(given_title, title) AS title, agent_id, message_count, created_at,
       updated_at, metadata, source_id, source_version, user_id, external_id
  FROM conversations
 WHERE account_id = %s AND listed AND (created_at, conversation_id) < (%s, %s) AND {}
""").format(NOT_ERASED)

_ORDER = sql.SQL(" ORDER BY created_at DESC, conversation_id DESC LIMIT %s")

_OF_USER = sql.SQL(" AND user_id = %s")
_WITH_EXTERNAL_ID = sql.SQL(" AND external_id = %s")
# The second condition is the index's.
_WITH_METADATA = sql.SQL(" AND metadata @> %s AND metadata <> '{}'")
_FORKS_OF = sql.SQL(" AND source_id = %s")
_OF_AGENT = sql.SQL(" AND agent_id = %s")
_CREATED_FROM = sql.SQL(" AND created_at >= %s")
# The database's own collation may be C, whose `lower` knows ASCII alone. No index finds a part of a text here
# (the embedded Postgres has no pg_trgm): where few titles match, the account's threads are read.
_WITH_TITLE = sql.SQL("""
 AND strpos(lower(coalesce(given_title, title) COLLATE pg_c_utf8), lower(%s COLLATE pg_c_utf8)) > 0
""")

_WITH_RATING = sql.SQL(" AND " + WITH_RATING.format(conversation="conversations", rating="%s"))

# Ids sort by time.
_WITH_AGENT = sql.SQL("""
SELECT count(*) OVER (), conversation_id FROM conversations
 WHERE account_id = %(account)s AND agent_id = %(agent)s AND {}
 ORDER BY conversation_id DESC LIMIT %(limit)s
""").format(NOT_ERASED)

_COUNT = sql.SQL("SELECT count(*) FROM conversations WHERE account_id = %s AND {}").format(NOT_ERASED)

_STORED = """
SELECT account_id, count(*), sum(events)::bigint, sum(bytes)::bigint FROM conversations
 WHERE %(account)s::text IS NULL OR account_id = %(account)s GROUP BY account_id
"""
