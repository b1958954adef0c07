"""The read model `conversations`.

It has a row for each, for lists and for its space in the log. Lists leave out conversations that are not
`listed` (`ids.is_unlisted`). `bytes` are added up by account on request, so that an erasure subtracts exactly
what was counted. A file is kept as long as a row has it in `file_ids` (`files.file_removal`). Among the
columns that change often only `updated_at` has an index, for the console's lists.

`tokens` and `cost` are sums of the model calls of its own runs, as the ledger has them (`runs_table`); `cost`
is null if tokens have no price. `scores` has the newest score by reply and name, `rating` is the mean of all;
`has_bad` and `has_good` say if the mean of a reply is below 0, or above.

The numbers come first in a row, since Postgres finds them there without reading the texts before them.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import LiteralString

import msgspec
from msgspec import UNSET
from psycopg import sql

from agentchat.contracts import events, ids
from agentchat.contracts.files import StoredFile
from agentchat.conversations.aggregate.model_calls import find_model_call
from agentchat.conversations.postgres_sessions import lift_time_limits
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put
from agentchat.conversations.projections.runs_table import add_cost
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from agentchat.runtime.prices import Prices

TITLE_LENGTH = 80
_SUM_SECONDS = 60.0

_TABLES = """
CREATE TABLE conversations (
    tokens bigint NOT NULL DEFAULT 0,
    events bigint NOT NULL,
    bytes bigint NOT NULL,
    message_count integer NOT NULL,
    listed boolean NOT NULL,
    has_bad boolean NOT NULL DEFAULT false,
    has_good boolean NOT NULL DEFAULT false,
    conversation_id text PRIMARY KEY,
    account_id text NOT NULL,
    updated_at text NOT NULL,
    created_at text NOT NULL,
    cost numeric DEFAULT 0,
    rating double precision,
    agent_id text,
    user_id text,
    title text,
    given_title text,
    metadata jsonb NOT NULL DEFAULT '{}',
    source_id text,
    source_version bigint,
    external_id text,
    file_ids text[] NOT NULL DEFAULT '{}',
    scores jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 80);
CREATE INDEX conversations_account_idx ON conversations (account_id, created_at DESC, conversation_id DESC)
    WHERE listed;
CREATE INDEX conversations_agent_idx
    ON conversations (account_id, agent_id, created_at DESC, conversation_id DESC);
CREATE INDEX conversations_activity_idx ON conversations (updated_at) WHERE listed;
CREATE INDEX conversations_unlisted_idx ON conversations (conversation_id) WHERE NOT listed;
CREATE INDEX conversations_metadata_idx ON conversations USING gin (metadata jsonb_path_ops)
    WHERE metadata <> '{}';
CREATE INDEX conversations_user_idx
    ON conversations (account_id, user_id, created_at DESC, conversation_id DESC)
    WHERE user_id IS NOT NULL;
CREATE INDEX conversations_external_idx ON conversations (account_id, external_id)
    WHERE external_id IS NOT NULL;
CREATE INDEX conversations_files_idx ON conversations USING gin (file_ids) WHERE file_ids <> '{}';
CREATE INDEX conversations_source_idx ON conversations (source_id) WHERE source_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON conversations TO agentchat_service;
"""


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
    """The changes of one row by a batch.

    `updated_at` is the time of its start or of its newest message. A batch that has neither leaves it out:
    the result must not depend on which event a batch begins with, whose time may be later than a message's.
    """

    conversation_id: str
    account_id: str
    created_at: str
    listed: bool
    updated_at: str = ""
    title: str | None = None
    agent_id: str | None = None
    user_id: str | None = None
    external_id: str | None = None
    message_count: int = 0
    events: int = 0
    bytes: int = 0
    file_ids: list[str] = []
    tokens: int = 0
    cost: Decimal | None = Decimal()


class _Fork(msgspec.Struct):
    """The source of a fork."""

    conversation_id: str
    source_id: str
    source_version: int


class _Rating(msgspec.Struct):
    """The newest scores of a batch, by the reply's trace and the name; None is withdrawn."""

    conversation_id: str
    scores: dict[str, float | None]


class _Description(msgspec.Struct):
    """The newest title and metadata of a conversation."""

    conversation_id: str
    given_title: str | None
    metadata: dict[str, str]


def _build_statements(facts: Sequence[LoggedFact], prices: Prices) -> list[Statement]:
    changes: dict[str, _Change] = {}
    described: dict[str, _Description] = {}
    forks: dict[str, _Fork] = {}
    ratings: dict[str, _Rating] = {}
    for fact in facts:
        change = changes.get(fact.conversation_id)
        if change is None:
            listed = not ids.is_unlisted(fact.conversation_id)
            change = _Change(fact.conversation_id, fact.account_id, fact.event.at, listed)
            changes[fact.conversation_id] = change
        change.events += 1
        change.bytes += fact.size
        if files := _list_files(fact.event):
            change.file_ids = sorted({*change.file_ids, *(file.file_id for file in files)})
        if fact.event.inherited_from is UNSET:
            _add_use(change, fact.event, prices)
        match fact.event:
            case events.ConversationStarted(user_id=user_id, external_id=external_id) as started:
                change.user_id, change.external_id = user_id, external_id
                change.updated_at = started.at
                if started.title is not None or started.metadata:
                    described[fact.conversation_id] = _describe(fact.conversation_id, started)
            case events.ConversationForked(source_id=source_id, source_version=source_version):
                forks[fact.conversation_id] = _Fork(fact.conversation_id, source_id, source_version)
            case events.ConversationDescribed() as changed:
                described[fact.conversation_id] = _describe(fact.conversation_id, changed)
            case events.MessageSaved() as message:
                _add_message(change, message)
            case events.FeedbackGiven() | events.FeedbackWithdrawn() as feedback:
                rating = ratings.setdefault(fact.conversation_id, _Rating(fact.conversation_id, {}))
                score = feedback.score if isinstance(feedback, events.FeedbackGiven) else None
                rating.scores[f"{feedback.trace_id} {feedback.on_behalf_of or ''}"] = score
            case _:
                pass
    for change in changes.values():
        change.updated_at = change.updated_at or change.created_at  # of a new row whose start was parked
    return [
        *put(_UPSERT, list(changes.values())),
        *put(_DESCRIBE, list(described.values())),
        *put(_FORK, list(forks.values())),
        *put(RATE, list(ratings.values())),
    ]


def _list_files(event: events.Event) -> tuple[StoredFile, ...]:
    match event:
        case events.MessageSaved(attachments=files) | events.ToolReturned(files=files):
            return files
        case events.MessageReceived(message=message):
            return message.attachments
        case events.ConversationSeeded(messages=messages):
            return tuple(file for message in messages for file in message.attachments)
        case _:
            return ()


def _describe(
    conversation_id: str, event: events.ConversationStarted | events.ConversationDescribed
) -> _Description:
    return _Description(conversation_id, event.title, event.metadata)


def build_title(message: events.MessageSaved) -> str:
    """Return the beginning of a message; the names of its files if it has no text."""
    said = message.content if message.content.strip() else ", ".join(f.name for f in message.attachments)
    return said[:TITLE_LENGTH]


def _add_message(change: _Change, message: events.MessageSaved) -> None:
    change.updated_at = max(change.updated_at, message.at)  # a fork copies older messages
    change.message_count += 1
    change.agent_id = message.agent_id
    if change.title is None and message.role == "user":
        change.title = build_title(message)


def _add_use(change: _Change, event: events.Event, prices: Prices) -> None:
    """Add the tokens and the cost of a model call."""
    call = find_model_call(event)
    if call is not None:
        change.tokens += call.usage.total
        change.cost = add_cost(change.cost, call, prices)


def build_projection(prices: Prices) -> Projection:
    """Build the read model with the costs of runs at these prices."""
    return Projection(
        name="conversations",
        tables=_TABLES,
        takes=frozenset(events.EVENTS),
        takes_inherited=True,
        changes=partial(_build_statements, prices=prices),
    )


PROJECTION = build_projection(Prices())
"""The read model for its name and tables, without prices."""


_UPSERT = insert(
    "conversations",
    "conversation_id text, account_id text, title text, agent_id text, user_id text, external_id text, "
    "message_count integer, created_at text, updated_at text, listed boolean, events bigint, bytes bigint, "
    "file_ids text[], tokens bigint, cost numeric",
    """(conversation_id) DO UPDATE
   SET title = coalesce(kept.title, excluded.title),
       agent_id = coalesce(excluded.agent_id, kept.agent_id),
       user_id = coalesce(kept.user_id, excluded.user_id),
       external_id = coalesce(kept.external_id, excluded.external_id),
       message_count = kept.message_count + excluded.message_count,
       updated_at = CASE WHEN excluded.message_count > 0 THEN greatest(kept.updated_at, excluded.updated_at)
                         ELSE kept.updated_at END,
       events = kept.events + excluded.events,
       bytes = kept.bytes + excluded.bytes,
       tokens = kept.tokens + excluded.tokens,
       cost = kept.cost + excluded.cost,
       file_ids = CASE WHEN excluded.file_ids = '{}' THEN kept.file_ids
                       ELSE ARRAY(SELECT DISTINCT unnest(kept.file_ids || excluded.file_ids) ORDER BY 1)
                  END""",
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

RATE: LiteralString = """
UPDATE conversations AS kept
   SET scores = rated.scores, rating = rated.rating, has_bad = rated.has_bad, has_good = rated.has_good
  FROM (SELECT conversation_id, scores, sum(total) / sum(number) AS rating,
               coalesce(min(total) < 0, false) AS has_bad, coalesce(max(total) > 0, false) AS has_good
          FROM (SELECT conversation_id, jsonb_strip_nulls(conversations.scores || new.scores) AS scores
                  FROM json_to_recordset(%s) AS new(conversation_id text, scores jsonb)
                  JOIN conversations USING (conversation_id)) AS given
          LEFT JOIN LATERAL (
               SELECT sum(score::float8) AS total, count(*) AS number
                 FROM jsonb_each_text(scores) AS each (reply_and_name, score)
                GROUP BY split_part(reply_and_name, ' ', 1)) AS replies ON TRUE
         GROUP BY conversation_id, scores) AS rated
 WHERE kept.conversation_id = rated.conversation_id
"""


# The log decides: the read model may not have the erasure yet.
NOT_ERASED = sql.SQL("""
NOT EXISTS (SELECT FROM conversation_events
             WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')
""")


# Ids sort by time.
_WITH_AGENT = sql.SQL("""
SELECT count(*) OVER (), conversation_id FROM conversations
 WHERE account_id = %(account)s AND agent_id = %(agent)s AND {}
 ORDER BY conversation_id DESC LIMIT %(limit)s
""").format(NOT_ERASED)


_STORED = """
SELECT account_id, count(*), sum(events)::bigint, sum(bytes)::bigint FROM conversations
 WHERE %(account)s::text IS NULL OR account_id = %(account)s GROUP BY account_id
"""
