"""List an account's conversations, by the filters of GET /v1/conversations."""

from collections.abc import Mapping
from typing import Any

import msgspec
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from agentchat.conversations.aggregate.conversation import ForkedFrom
from agentchat.conversations.projections.conversations_table import NOT_ERASED
from agentchat.conversations.projections.feedback_table import Rating
from agentchat.runtime.postgres import Connection, Pool, acquire_connection


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


# Sorts after every key: times are ISO 8601, which begins with a digit.
_LAST = ("~", "~")


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


# The database's own collation may be C, whose `lower` knows only ASCII. No index finds a part of a text here
# (the embedded Postgres has no pg_trgm): where few titles match, the account's threads are read.
_WITH_TITLE = sql.SQL("""
 AND strpos(lower(coalesce(given_title, title) COLLATE pg_c_utf8), lower(%s COLLATE pg_c_utf8)) > 0
""")


_WITH_RATING = sql.SQL(" AND CASE %s WHEN 'bad' THEN has_bad WHEN 'good' THEN has_good END")


_COUNT = sql.SQL("SELECT count(*) FROM conversations WHERE account_id = %s AND {}").format(NOT_ERASED)
