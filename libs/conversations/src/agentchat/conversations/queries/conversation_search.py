"""Search the conversations of all accounts for an operator, in the read models.

Lists are in the order of the conversations' ids, the newest first: ids begin with the time; or of the last
activity, or of the rank that words give (`text_matches`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from psycopg import sql
from psycopg.types.json import Jsonb

from agentchat.contracts.ids import is_trace_id, is_uuid
from agentchat.conversations.database import lift_time_limits
from agentchat.conversations.projections.conversations_table import NOT_ERASED
from agentchat.conversations.projections.feedback_table import WITH_RATING, Rating
from agentchat.conversations.queries.search_query import parse_search
from agentchat.conversations.queries.text_matches import Hit, TextSearch
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

SEARCH_SECONDS = 20.0
"""The longest time of a search."""


class ConversationSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, as lists have it; times are ISO 8601 UTC. `agent_id` answered last.

    `hit` is the best matching text and `rank` its rank, if words were searched for.
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
    rank: float = 0.0
    hit: Hit | None = None

    def get_place(self, sort: "Sort") -> str:
        """Return its place in an order, from which the next page continues."""
        match sort:
            case "created":
                return self.id
            case "last_activity":
                return f"{self.updated_at} {self.id}"
            case "rank":
                return f"{self.rank!r} {self.updated_at} {self.id}"


class ConversationSearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a search. `total` counts all that match the words, None without words.

    If not `is_total_exact`, there may be more (`TextMatches`).
    """

    rows: list[ConversationSearchResult]
    total: int | None = None
    is_total_exact: bool = True


Sort = Literal["created", "last_activity", "rank"]
SORTS: tuple[Sort, ...] = get_args(Sort)


class ConversationSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a search; None matches any.

    `since` and `until` bound the conversation's activity: [since, until), ISO 8601 UTC. A conversation that
    began before and continued after is included; if a `text` is searched for, that must lie between.

    `user_id` is the end user who started it. `end` is the state of one of its runs, `rating` that of one of
    its replies, `tool` the name of a tool that was called in it. `text` is a search for words
    (`search_query`); or the id of it, of a run or of a message. Without words all have one rank.
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
) -> ConversationSearchPage:
    """Find up to `limit` conversations in the order of the search, without erased ones.

    `before` is the place of the last one of the page before; with `after` those that are newer than that id.
    Raises ValueError for a text that is no search or no place, DatabaseUnavailable.
    """
    text = (wanted.text or "").strip()
    has_id = is_uuid(text.lower()) or is_trace_id(text.lower())
    query = parse_search(text) if text and not has_id else None
    values: dict[str, Any] = msgspec.structs.asdict(wanted) | {
        "metadata": Jsonb(dict(wanted.metadata)) if wanted.metadata else None,
        "after": after,
        "limit": limit,
        "id": text.lower() if has_id else None,
        "asked_user_id": query.user_id if query else None,
        "asked_metadata": Jsonb(dict(query.metadata)) if query and query.metadata else None,
    }
    conditions = [condition for name, condition in _CONDITIONS.items() if values[name] is not None]
    async with acquire_connection(pool, seconds=SEARCH_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        if query is None or not query.terms:
            return ConversationSearchPage(
                rows=_build_results(await _fetch_rows(conn, _LISTED, conditions, values, wanted.sort, before))
            )
        search = TextSearch(conn, query, conditions, values)
        matches = await search.match(limit)
        values |= {"ids": matches.ids, "ranks": matches.ranks}
        rows = await _fetch_rows(conn, _MATCHED, [], values, wanted.sort, before)
        return ConversationSearchPage(
            rows=_build_results(rows, await search.fetch_hits([row[0] for row in rows])),
            total=len(matches.ids),
            is_total_exact=matches.is_complete,
        )


async def list_matching_traces(pool: Pool, conversation_ids: Sequence[str], text: str) -> set[str]:
    """Return the traces of the messages of conversations that a search finds.

    Raises ValueError for a text that is no search, DatabaseUnavailable.
    """
    async with acquire_connection(pool, seconds=SEARCH_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        return await TextSearch(conn, parse_search(text), [], {}).list_traces(conversation_ids)


async def _fetch_rows(
    conn: Connection,
    form: sql.SQL,
    conditions: list[sql.SQL],
    values: dict[str, Any],
    sort: Sort,
    before: str | None,
) -> list[tuple[Any, ...]]:
    """Fetch the page after a place. Raises ValueError."""
    order = _ORDERS[sort]
    if before is not None:
        place = before.split(" ")
        if len(place) != order.columns:
            raise ValueError(f"not a place in a list: {before[:100]}")
        values = values | {"place": place, "rank": float(place[0]) if sort == "rank" else None}
        conditions = [*conditions, order.follows]
    query = form.format(
        columns=_COLUMNS, not_erased=NOT_ERASED, wanted=sql.SQL("").join(conditions), order=order.by
    )
    return await (await conn.execute(query, values)).fetchall()


def _build_results(
    rows: list[tuple[Any, ...]], hits: Mapping[str, Hit] | None = None
) -> list[ConversationSearchResult]:
    names = ConversationSearchResult.__struct_fields__[:-1]
    return [
        ConversationSearchResult(**dict(zip(names, row, strict=True)), hit=(hits or {}).get(row[0]))
        for row in rows
    ]


class _Order(msgspec.Struct, frozen=True):
    """An order: its keys, how many there are, and the condition on those that follow a place."""

    columns: int
    by: sql.SQL
    follows: sql.SQL


_ORDERS: Mapping[Sort, _Order] = {
    "created": _Order(
        1,
        sql.SQL("c.conversation_id DESC"),
        sql.SQL("\n   AND c.conversation_id < (%(place)s::text[])[1]"),
    ),
    "last_activity": _Order(
        2,
        sql.SQL("c.updated_at DESC, c.conversation_id DESC"),
        sql.SQL(
            "\n   AND (c.updated_at, c.conversation_id) < ((%(place)s::text[])[1], (%(place)s::text[])[2])"
        ),
    ),
    "rank": _Order(
        3,
        sql.SQL("rank DESC, c.updated_at DESC, c.conversation_id DESC"),
        sql.SQL(
            "\n   AND (rank, c.updated_at, c.conversation_id)"
            " < (%(rank)s::real, (%(place)s::text[])[2], (%(place)s::text[])[3])"
        ),
    ),
}

_COLUMNS = sql.SQL("""c.conversation_id, c.account_id, coalesce(c.given_title, c.title), c.agent_id,
       c.message_count, c.created_at, c.updated_at, c.metadata, c.user_id, c.external_id""")

_LISTED = sql.SQL("""
SELECT {columns}, rank FROM conversations AS c, (VALUES (0::real)) AS hit (rank)
 WHERE listed AND {not_erased}{wanted}
 ORDER BY {order} LIMIT %(limit)s
""")

_MATCHED = sql.SQL("""
SELECT {columns}, rank
  FROM unnest(%(ids)s::text[], %(ranks)s::real[]) AS hit (conversation_id, rank)
  JOIN conversations AS c USING (conversation_id)
 WHERE TRUE{wanted} ORDER BY {order} LIMIT %(limit)s
""")

_CONDITIONS = {
    "after": sql.SQL("\n   AND c.conversation_id > %(after)s"),
    "account_id": sql.SQL("\n   AND c.account_id = %(account_id)s"),
    "account_ids": sql.SQL("\n   AND c.account_id = ANY (%(account_ids)s)"),
    "user_id": sql.SQL("\n   AND c.user_id = %(user_id)s"),
    "asked_user_id": sql.SQL("\n   AND c.user_id = %(asked_user_id)s"),
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
    "id": sql.SQL("""
   AND c.conversation_id IN (
       SELECT %(id)s
        UNION ALL SELECT conversation_id FROM messages WHERE message_id = %(id)s
        UNION ALL SELECT originator_id FROM conversation_events
                   WHERE topic = 'run_started.v1' AND trace_id = %(id)s)"""),
    # The second condition is that of the index.
    "metadata": sql.SQL("\n   AND c.metadata @> %(metadata)s AND c.metadata <> '{}'"),
    "asked_metadata": sql.SQL("\n   AND c.metadata @> %(asked_metadata)s AND c.metadata <> '{}'"),
}
