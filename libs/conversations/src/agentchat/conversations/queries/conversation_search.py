"""Search the conversations of all accounts for an operator, in the read models.

Lists are in the order of the conversations' ids, the newest first: ids begin with the time. A list without
words may be in the order of the last activity, for which all that match are sorted. A search for words first
looks through the newest conversations, which suffices for a common word. Rare words are then looked up in the
index of words (decision 133).
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from psycopg import sql
from psycopg.types.json import Jsonb

from agentchat.contracts.ids import is_trace_id, is_uuid
from agentchat.conversations.database import lift_time_limits
from agentchat.conversations.projections.conversations_table import NOT_ERASED
from agentchat.conversations.projections.feedback_table import WITH_RATING, Rating
from agentchat.conversations.projections.search_table import MAX_CHARACTERS
from agentchat.conversations.queries.search_query import Snippet, WordQuery, parse_search
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

SEARCH_SECONDS = 20.0
"""The longest time of a search."""

NEWEST = 2_000
"""The number of conversations that are looked through one by one, before the index of words is used."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """The newest text of a conversation that matches.

    Without `message_id` it is its title or metadata.
    """

    message_id: str | None
    role: str | None
    trace_id: str | None
    at: str
    snippet: Snippet


class ConversationSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, as lists have it; times are ISO 8601 UTC. `agent_id` answered last.

    `hit` is the matching text, if a text was searched for.
    """

    id: str
    account_id: str
    title: str | None
    agent_id: str | None
    message_count: int
    created_at: str
    updated_at: str
    metadata: dict[str, str]
    user_id: str | None = None
    external_id: str | None = None
    hit: Hit | None = None

    @property
    def activity(self) -> str:
        """Its place in the order of the last activity."""
        return f"{self.updated_at} {self.id}"


Sort = Literal["created", "last_activity"]


class ConversationSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a search; None matches any.

    `since` and `until` bound the conversation's activity: [since, until), ISO 8601 UTC. A conversation that
    began before and continued after is included; if a `text` is searched for, that must lie between.

    `user_id` is the end user who started it. `end` is the state of one of its runs, `rating` that of one of
    its replies, `tool` the name of a tool that was called in it. `text` are words of a message, of its title
    or of its metadata (`search_query`); or the id of it, of a run or of a message. With a text, `sort` does
    not matter.
    """

    account_id: str | None = None
    account_ids: list[str] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    since: str | None = None
    until: str | None = None
    end: str | None = None
    tool: str | None = None
    rating: Rating | None = None
    metadata: Mapping[str, str] = {}
    text: str | None = None
    sort: Sort = "created"


async def find_conversations(
    pool: Pool,
    wanted: ConversationSearch,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int,
) -> list[ConversationSearchResult]:
    """Find up to `limit` conversations, the one that began last first, without erased ones.

    `before` is the id of the last one of the page before, or its `activity` in that order; with `after` those
    that are newer than that id.
    Raises DatabaseUnavailable, also if a search takes too long.
    """
    values = _build_values(wanted) | {"before": before, "after": after, "limit": limit, "newest": NEWEST}
    values["active_before"] = None
    async with acquire_connection(pool, seconds=SEARCH_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        if wanted.text is None and wanted.sort == "last_activity":
            values["active_before"], values["before"] = values["before"], None
            return _build_results(
                await _fetch_rows(conn, _LISTED_BY_ACTIVITY, _list_conditions(values), values)
            )
        if wanted.text is None:
            return _build_results(await _fetch_rows(conn, _LISTED, _list_conditions(values), values))
        if values["id"] is not None:
            return _build_results(
                await _fetch_rows(conn, _LISTED, [*_list_conditions(values), _HAS_ID], values)
            )
        query = parse_search(wanted.text)
        if query.tsquery is None:
            return []
        values["words"] = query.tsquery
        rows = await _fetch_rows(conn, _WALKED, _list_conditions(values), values)
        if len(rows) < limit and await _fetch_rows(conn, _IS_MORE, _list_conditions(values), values):
            rows = await _fetch_rows(conn, _LOOKED_UP, _list_conditions(values), values)
        hits = await _fetch_hits(conn, query, [row[0] for row in rows], values)
        return _build_results(rows, hits)


def _build_values(wanted: ConversationSearch) -> dict[str, Any]:
    text = (wanted.text or "").strip().lower()
    return msgspec.structs.asdict(wanted) | {
        "metadata": Jsonb(dict(wanted.metadata)) if wanted.metadata else None,
        "id": text if is_uuid(text) or is_trace_id(text) else None,
    }


def _list_conditions(values: Mapping[str, Any]) -> list[sql.SQL]:
    return [condition for name, condition in _CONDITIONS.items() if values[name] is not None]


async def _fetch_rows(
    conn: Connection, form: sql.SQL, conditions: list[sql.SQL], values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Execute a statement, with {wanted} for the conditions and {time} for those on texts."""
    times = [condition for name, condition in _TIMES.items() if values[name] is not None]
    query = form.format(
        columns=_COLUMNS,
        not_erased=NOT_ERASED,
        wanted=sql.SQL("").join(conditions),
        time=sql.SQL("").join(times),
    )
    return await (await conn.execute(query, values)).fetchall()


async def _fetch_hits(
    conn: Connection, query: WordQuery, ids: list[str], values: Mapping[str, Any]
) -> dict[str, Hit]:
    """Return the newest matching text of each conversation."""
    rows = await _fetch_rows(conn, _HITS, [], {**values, "ids": ids, "most": MAX_CHARACTERS})
    return {
        conversation_id: Hit(
            message_id=message_id,
            role=role,
            trace_id=trace_id,
            at=at,
            snippet=query.build_snippet(text or ""),
        )
        for conversation_id, message_id, role, trace_id, at, text in rows
    }


def _build_results(
    rows: list[tuple[Any, ...]], hits: Mapping[str, Hit] | None = None
) -> list[ConversationSearchResult]:
    names = ConversationSearchResult.__struct_fields__[:-1]
    return [
        ConversationSearchResult(**dict(zip(names, row, strict=True)), hit=(hits or {}).get(row[0]))
        for row in rows
    ]


_COLUMNS = sql.SQL("""c.conversation_id, c.account_id, coalesce(c.given_title, c.title), c.agent_id,
       c.message_count, c.created_at, c.updated_at, c.metadata, c.user_id, c.external_id""")

_LISTED = sql.SQL("""
SELECT {columns} FROM conversations AS c
 WHERE listed AND {not_erased}{wanted}
 ORDER BY c.conversation_id DESC LIMIT %(limit)s
""")

_LISTED_BY_ACTIVITY = sql.SQL("""
SELECT {columns} FROM conversations AS c
 WHERE listed AND {not_erased}{wanted}
 ORDER BY c.updated_at DESC, c.conversation_id DESC LIMIT %(limit)s
""")

_WALKED = sql.SQL("""
SELECT {columns}
  FROM (SELECT * FROM conversations AS c
         WHERE listed AND {not_erased}{wanted}
         ORDER BY c.conversation_id DESC LIMIT %(newest)s) AS c
 WHERE EXISTS (SELECT FROM search
                WHERE search.conversation_id = c.conversation_id AND words @@ %(words)s::tsquery{time})
 ORDER BY c.conversation_id DESC LIMIT %(limit)s
""")

# Finds out whether there are conversations that were not looked through.
_IS_MORE = sql.SQL("""
SELECT FROM conversations AS c WHERE listed{wanted} OFFSET %(newest)s LIMIT 1
""")

# OFFSET keeps the order of the joins: few are found, and the first of them that match are enough.
_LOOKED_UP = sql.SQL("""
SELECT {columns}
  FROM (SELECT DISTINCT conversation_id FROM search
         WHERE words @@ %(words)s::tsquery{time}
           AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
         ORDER BY conversation_id DESC OFFSET 0) AS hit,
       LATERAL (
       SELECT * FROM conversations AS c
        WHERE c.conversation_id = hit.conversation_id AND listed
          AND {not_erased}{wanted}
       OFFSET 0) AS c
 LIMIT %(limit)s
""")

_HITS = sql.SQL("""
SELECT DISTINCT ON (search.conversation_id)
       search.conversation_id, m.message_id, m.role, m.trace_id, search.at,
       left(coalesce(m.content, concat_ws(' · ', c.given_title,
            (SELECT string_agg(value, ' · ') FROM jsonb_each_text(c.metadata)))), %(most)s)
  FROM search
  LEFT JOIN messages AS m ON m.message_id = search.text_id
  LEFT JOIN conversations AS c ON c.conversation_id = search.text_id
 WHERE search.conversation_id = ANY (%(ids)s) AND words @@ %(words)s::tsquery{time}
 ORDER BY search.conversation_id, search.at DESC
""")

_HAS_ID = sql.SQL("""
   AND c.conversation_id IN (
       SELECT %(id)s
        UNION ALL SELECT conversation_id FROM messages WHERE message_id = %(id)s
        UNION ALL SELECT originator_id FROM conversation_events
                   WHERE topic = 'run_started.v1' AND trace_id = %(id)s)""")

_CONDITIONS = {
    "before": sql.SQL("\n   AND c.conversation_id < %(before)s"),
    "active_before": sql.SQL(
        "\n   AND (c.updated_at, c.conversation_id) < (split_part(%(active_before)s, ' ', 1),"
        " split_part(%(active_before)s, ' ', 2))"
    ),
    "after": sql.SQL("\n   AND c.conversation_id > %(after)s"),
    "account_id": sql.SQL("\n   AND c.account_id = %(account_id)s"),
    "account_ids": sql.SQL("\n   AND c.account_id = ANY (%(account_ids)s)"),
    "user_id": sql.SQL("\n   AND c.user_id = %(user_id)s"),
    "agent_id": sql.SQL(
        "\n   AND EXISTS (SELECT FROM runs WHERE runs.conversation_id = c.conversation_id"
        " AND runs.agent_id = %(agent_id)s)"
    ),
    "since": sql.SQL("\n   AND c.updated_at >= %(since)s"),
    "until": sql.SQL("\n   AND c.created_at < %(until)s"),
    "end": sql.SQL(
        "\n   AND EXISTS (SELECT FROM runs WHERE runs.conversation_id = c.conversation_id"
        " AND runs.state = %(end)s)"
    ),
    "tool": sql.SQL(
        "\n   AND EXISTS (SELECT FROM tools WHERE tools.conversation_id = c.conversation_id"
        " AND tools.name = %(tool)s)"
    ),
    "rating": sql.SQL("\n   AND " + WITH_RATING.format(conversation="c", rating="%(rating)s")),
    # The second condition is that of the index.
    "metadata": sql.SQL("\n   AND c.metadata @> %(metadata)s AND c.metadata <> '{}'"),
}
_TIMES = {
    "since": sql.SQL(" AND search.at >= %(since)s"),
    "until": sql.SQL(" AND search.at < %(until)s"),
}
