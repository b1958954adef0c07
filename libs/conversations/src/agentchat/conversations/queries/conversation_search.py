"""Search the conversations of all accounts for an operator, in the read models.

Lists are in the order of the conversations' ids, the newest first: ids begin with the time; or of the last
activity, or of the rank that words give (`text_matches`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg import sql
from psycopg.types.json import Jsonb

from agentchat.contracts.ids import is_trace_id, is_uuid
from agentchat.conversations.postgres_sessions import lift_time_limits
from agentchat.conversations.projections.conversations_table import NOT_ERASED
from agentchat.conversations.projections.feedback_table import Rating
from agentchat.conversations.queries.find_runs import build_state_condition
from agentchat.conversations.queries.search_query import parse_search
from agentchat.conversations.queries.sorted_list import (
    ACTIVITY,
    RowCount,
    RowPage,
    SortedList,
    SortKey,
    SortOrder,
)
from agentchat.conversations.queries.text_matches import Hit, TextSearch
from agentchat.runtime.postgres import Pool, acquire_connection

SEARCH_SECONDS = 20.0
"""The longest time of a search."""


class ConversationSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, as lists have it; times are ISO 8601 UTC. `agent_id` answered last.

    `state` is that of the last run; `is_waiting`: a decision about a tool call is pending. `tokens` and
    `cost` are sums of the runs, `rating` is the mean of all scores. The cost is None if a model has no price.

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
    state: str | None = None
    is_waiting: bool = False
    tokens: int = 0
    cost: float | None = None
    rating: float | None = None
    rank: float = 0.0
    hit: Hit | None = None


class ConversationSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a search; None matches any.

    `since` and `until` bound the conversation's activity: [since, until), ISO 8601 UTC. A conversation that
    began before and continued after is included; if a `text` is searched for, that must lie between.

    `user_id` is the end user who started it. `end` is the state of one of its runs, `rating` that of one of
    its replies, `tool` the name of a tool that was called in it, `min_tokens` and `min_cost` are the least
    sums of its runs. `text` is a search for words
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
    min_tokens: int | None = None
    min_cost: float | None = None
    metadata: Mapping[str, str] = {}
    text: str | None = None
    sort: SortOrder = SortOrder("created")


async def find_conversations(
    pool: Pool,
    wanted: ConversationSearch,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int,
    counts: bool = False,
) -> RowPage[ConversationSearchResult]:
    """Find up to `limit` conversations in the order of the search, without erased ones.

    `before` is the place of the last one of the page before; `after` is an id: only newer ones are found.
    Conversations found by words are always counted, others if it `counts`.
    Raises ValueError for a text that is no search or no place, DatabaseUnavailable.
    """
    text = (wanted.text or "").strip()
    has_id = is_uuid(text.lower()) or is_trace_id(text.lower())
    query = parse_search(text) if text and not has_id else None
    values: dict[str, Any] = msgspec.structs.asdict(wanted) | {
        "metadata": Jsonb(dict(wanted.metadata)) if wanted.metadata else None,
        "after": after,
        "id": text.lower() if has_id else None,
        "asked_user_id": query.user_id if query else None,
        "asked_metadata": Jsonb(dict(query.metadata)) if query and query.metadata else None,
    }
    conditions: list[sql.Composable] = [
        condition for name, condition in _CONDITIONS.items() if values[name] is not None
    ]
    if wanted.rating is not None:
        conditions.append(_HAS_BAD if wanted.rating == "bad" else _HAS_GOOD)
    if wanted.end is not None:
        conditions.append(_HAS_RUN.format(sql.SQL(build_state_condition(wanted.end, "runs", "end"))))
    async with acquire_connection(pool, seconds=SEARCH_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        if query is None or not query.terms:
            matching = _LISTED.format(not_erased=NOT_ERASED, conditions=sql.SQL("").join(conditions))
            page = await CONVERSATIONS.fetch_page(
                conn, matching, values, order=wanted.sort, after=before, limit=limit, counts=counts
            )
            return _build_page(page, {}, page.total)
        search = TextSearch(conn, query, conditions, values)
        matches = await search.match(limit)
        found = {"ids": matches.ids, "ranks": matches.ranks}
        page = await _MATCHES.fetch_page(
            conn, sql.SQL("TRUE"), found, order=wanted.sort, after=before, limit=limit
        )
        hits = await search.fetch_hits([row[0] for row in page.rows])
        return _build_page(page, hits, RowCount(len(matches.ids), matches.is_complete))


async def list_matching_traces(pool: Pool, conversation_ids: Sequence[str], text: str) -> set[str]:
    """Return the traces of the messages of conversations that a search finds.

    Raises ValueError for a text that is no search, DatabaseUnavailable.
    """
    async with acquire_connection(pool, seconds=SEARCH_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        return await TextSearch(conn, parse_search(text), [], {}).list_traces(conversation_ids)


def _build_page(
    page: RowPage[tuple[Any, ...]], hits: Mapping[str, Hit], total: RowCount | None
) -> RowPage[ConversationSearchResult]:
    names = ConversationSearchResult.__struct_fields__[:-1]
    rows = [
        ConversationSearchResult(**dict(zip(names, row, strict=True)), hit=hits.get(row[0]))
        for row in page.rows
    ]
    return RowPage(rows=rows, places=page.places, total=total)


_OF_RUNS = "FROM runs WHERE runs.conversation_id = c.conversation_id"
_TITLE = "coalesce(c.given_title, c.title)"
_STATE = f"(SELECT state {_OF_RUNS} ORDER BY requested_at DESC NULLS LAST LIMIT 1)"
_IS_WAITING = """EXISTS (
       SELECT FROM approvals AS asked
        WHERE asked.conversation_id = c.conversation_id AND asked.status = 'pending')"""

CONVERSATIONS = SortedList(
    table="(SELECT *, 0::real AS rank FROM conversations)",
    alias="c",
    id="c.conversation_id",
    columns=f"""c.conversation_id, c.account_id, {_TITLE}, c.agent_id, c.message_count, c.created_at,
       c.updated_at, c.metadata, c.user_id, c.external_id, {_STATE}, {_IS_WAITING}, c.tokens,
       c.cost::float8, c.rating, c.rank""",
    keys={
        ACTIVITY: SortKey("c.updated_at", "text", has_index=True),
        "created": SortKey("c.conversation_id", "text", has_index=True),
        "rank": SortKey("c.rank::numeric"),
        "title": SortKey(f"coalesce({_TITLE}, '')", "text"),
        "state": SortKey(f"coalesce({_STATE}, '')", "text"),
        "agent_id": SortKey("coalesce(c.agent_id, '')", "text"),
        "account_id": SortKey("c.account_id", "text"),
        "user_id": SortKey("coalesce(c.user_id, '')", "text"),
        "message_count": SortKey("c.message_count"),
        "tokens": SortKey("c.tokens"),
        "cost": SortKey("coalesce(c.cost, -1)"),
        "rating": SortKey("coalesce(c.rating, -2)::numeric"),
    },
)
"""Conversations as a list. Ids begin with the time, so that they sort by creation."""

_MATCHES = msgspec.structs.replace(
    CONVERSATIONS,
    table="""(SELECT conversations.*, rank
          FROM unnest(%(ids)s::text[], %(ranks)s::real[]) AS hit (conversation_id, rank)
          JOIN conversations USING (conversation_id))""",
)

_LISTED = sql.SQL("c.listed AND {not_erased}{conditions}")

_HAS_BAD, _HAS_GOOD = sql.SQL("\n   AND c.has_bad"), sql.SQL("\n   AND c.has_good")
_HAS_RUN = sql.SQL("\n   AND EXISTS (SELECT FROM runs WHERE runs.conversation_id = c.conversation_id AND {})")

_CONDITIONS: dict[str, sql.Composable] = {
    "after": sql.SQL("\n   AND c.conversation_id > %(after)s"),
    "account_id": sql.SQL("\n   AND c.account_id = %(account_id)s"),
    "account_ids": sql.SQL("\n   AND c.account_id = ANY (%(account_ids)s)"),
    "user_id": sql.SQL("\n   AND c.user_id = %(user_id)s"),
    "asked_user_id": sql.SQL("\n   AND c.user_id = %(asked_user_id)s"),
    "agent_id": _HAS_RUN.format(sql.SQL("runs.agent_id = %(agent_id)s")),
    "since": sql.SQL("\n   AND c.updated_at >= %(since)s"),
    "until": sql.SQL("\n   AND c.created_at < %(until)s"),
    "tool": sql.SQL(
        "\n   AND EXISTS (SELECT FROM tools WHERE tools.conversation_id = c.conversation_id"
        " AND tools.name = %(tool)s)"
    ),
    "min_tokens": sql.SQL("\n   AND c.tokens >= %(min_tokens)s"),
    "min_cost": sql.SQL("\n   AND c.cost >= %(min_cost)s::numeric"),
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
