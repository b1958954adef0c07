"""Match the words of a search with the texts of conversations: which conversations have them, ranked.

A word is common if many of the newest conversations have it: then these are ranked, and older ones are not
looked at. Otherwise the index of words is asked, which finds all (decision 133).
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from agentchat.conversations.database import lift_time_limits
from agentchat.conversations.projections.conversations_table import NOT_ERASED
from agentchat.conversations.projections.search_table import MAX_CHARACTERS, Origin
from agentchat.conversations.queries.search_query import Snippet, Stems, WordQuery
from agentchat.runtime.postgres import Connection

NEWEST = 1_000
"""The number of conversations that are looked through one by one, before the index of words is used."""

COMMON = 100
"""If so many of them match, the index is not used."""

MOST_TEXTS = 10_000
"""The most texts that are taken from the index."""

LOOKUP_SECONDS = 5
"""The longest time for the index: a phrase of common words is compared with all texts that have the words."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a conversation that matches best.

    `origin` says whose it is. That of feedback has the `message_id` of the reply; without one it is the title
    or metadata.
    """

    message_id: str | None
    role: str | None
    trace_id: str | None
    at: str
    origin: Origin
    snippet: Snippet


class TextMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The conversations that match, each with its rank.

    If not `is_complete`, more may match: of a common word only the newest conversations were looked through.
    """

    ids: list[str]
    ranks: list[float]
    is_complete: bool


class TextSearch:
    """A search for words in an open transaction; `conditions` are those on conversations as `c`.

    `values` are those of the conditions, with `account_id`, `account_ids`, `since` and `until`, any of which
    may be None.
    """

    def __init__(
        self, conn: Connection, query: WordQuery, conditions: Sequence[sql.SQL], values: Mapping[str, Any]
    ) -> None:
        self._conn = conn
        self._query = query
        self._conditions = conditions
        self._values = dict(values)

    async def match(self, limit: int) -> TextMatches:
        """Return the conversations that match; at least `limit` of them if there are so many."""
        await self._load_words()
        newest, enough = max(NEWEST, limit), max(COMMON, limit)
        rows = await self._fetch(_WALKED, newest=newest)
        is_complete = rows[0][2] < newest
        if not is_complete and sum(row[0] is not None for row in rows) < enough:
            with contextlib.suppress(psycopg.errors.QueryCanceled):
                rows = await self._look_up()
                is_complete = rows[0][2] < MOST_TEXTS
        found = [row for row in rows if row[0] is not None]
        return TextMatches(
            ids=[row[0] for row in found],
            ranks=[row[1] for row in found],
            is_complete=is_complete,
        )

    async def fetch_hits(self, ids: Sequence[str]) -> dict[str, Hit]:
        """Return the best matching text of each conversation, after `match`."""
        return {
            conversation_id: Hit(snippet=self._query.build_snippet(text or "", forms or ()), **more)
            for conversation_id, text, forms, more in await self._fetch(_HITS, ids=ids, most=MAX_CHARACTERS)
        }

    async def list_traces(self, ids: Sequence[str]) -> set[str]:
        """Return the traces of the messages of these conversations that match."""
        await self._load_words()
        return {trace_id for (trace_id,) in await self._fetch(_TRACES, ids=ids)}

    async def _look_up(self) -> list[tuple[Any, ...]]:
        """Look the words up in their index. Raises QueryCanceled if that takes too long."""
        async with self._conn.transaction():
            await self._conn.execute(f"SET LOCAL statement_timeout TO '{LOOKUP_SECONDS}s'")
            await self._conn.execute("SET LOCAL enable_seqscan TO off")  # beginnings of words are misjudged
            rows = await self._fetch(_LOOKED_UP, most=MOST_TEXTS)
            await lift_time_limits(self._conn)
            return rows

    async def _load_words(self) -> None:
        rows = await self._fetch(_STEMS, asked=self._query.stemmed_words)
        stems: Stems = dict(rows)
        words = self._query.build_tsquery(stems)
        self._values |= {
            "words": words,
            "matching": self._query.build_matching_tsquery(words),
            "excluded": self._query.build_excluded_tsquery(stems),
            "stems": [stem for found in stems.values() for stem in found],
        }

    async def _fetch(self, form: sql.SQL, **more: object) -> list[tuple[Any, ...]]:
        """Execute a statement, with {conditions} on conversations and {matches} for texts."""
        values = self._values | more
        matches = [condition for name, condition in _MATCHES.items() if values.get(name) is not None]
        query = form.format(
            conditions=sql.SQL("").join(self._conditions),
            not_erased=NOT_ERASED,
            matches=sql.SQL(" AND ").join(matches),
            without=_WITHOUT if values.get("excluded") is not None else sql.SQL(""),
        )
        return await (await self._conn.execute(query, values)).fetchall()


_STEMS = sql.SQL("""
SELECT word, tsvector_to_array(to_tsvector('pg_catalog.english', word) || to_tsvector(word))
  FROM unnest(%(asked)s::text[]) AS word
""")

_WALKED = sql.SQL("""
WITH walked AS MATERIALIZED (
  SELECT * FROM conversations AS c WHERE listed{conditions} ORDER BY c.conversation_id DESC LIMIT %(newest)s
)
SELECT found.conversation_id, found.rank, walked.count
  FROM (SELECT count(*) FROM walked) AS walked
  LEFT JOIN (SELECT c.conversation_id, hit.rank
               FROM walked AS c, LATERAL (
                    SELECT max(ts_rank_cd(words, %(words)s::tsquery, 1)) AS rank FROM search
                     WHERE search.conversation_id = c.conversation_id AND {matches} OFFSET 0) AS hit
              WHERE hit.rank IS NOT NULL AND {not_erased}{without}) AS found ON true
""")

# OFFSET keeps the order of the joins: few conversations are found.
_LOOKED_UP = sql.SQL("""
WITH hit AS MATERIALIZED (
  SELECT conversation_id, ts_rank_cd(words, %(words)s::tsquery, 1) AS rank FROM search
   WHERE {matches} AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
     AND (%(account_ids)s::text[] IS NULL OR account_id = ANY (%(account_ids)s)) LIMIT %(most)s
)
SELECT found.conversation_id, found.rank, texts.count
  FROM (SELECT count(*) FROM hit) AS texts
  LEFT JOIN (SELECT best.*
               FROM (SELECT conversation_id, max(rank) AS rank FROM hit GROUP BY 1 OFFSET 0) AS best,
                    LATERAL (
                    SELECT FROM conversations AS c WHERE c.conversation_id = best.conversation_id AND listed
                       AND {not_erased}{conditions}{without} OFFSET 0) AS c) AS found ON true
""")

_HITS = sql.SQL("""
SELECT hit.conversation_id,
       left(CASE hit.origin
            WHEN 'feedback' THEN concat_ws(' · ', f.label, f.comment)
            WHEN 'title' THEN concat_ws(' · ', c.given_title,
                 (SELECT string_agg(value, ' · ') FROM jsonb_each_text(c.metadata)))
            ELSE m.content END, %(most)s),
       (SELECT array_agg(lexeme) FROM unnest(hit.words)
         WHERE 'A' = ANY (weights) AND %(stems)s::text[] && tsvector_to_array(
               to_tsvector('pg_catalog.english', lexeme) || to_tsvector(lexeme))),
       json_build_object('message_id', coalesce(m.message_id, f.message_id), 'role', m.role,
                         'trace_id', coalesce(m.trace_id, f.trace_id), 'at', hit.at, 'origin', hit.origin)
  FROM (SELECT DISTINCT ON (search.conversation_id) search.* FROM search
         WHERE search.conversation_id = ANY (%(ids)s) AND {matches}
         ORDER BY search.conversation_id, ts_rank_cd(words, %(words)s::tsquery, 1) DESC, search.at DESC
       ) AS hit
  LEFT JOIN messages AS m ON m.message_id = hit.text_id
  LEFT JOIN conversations AS c ON c.conversation_id = hit.text_id
  LEFT JOIN feedback AS f ON hit.origin = 'feedback' AND f.message_id = split_part(hit.text_id, ' ', 1)
                         AND f.on_behalf_of = substr(hit.text_id, strpos(hit.text_id, ' ') + 1)
""")

_TRACES = sql.SQL("""
SELECT DISTINCT m.trace_id FROM search JOIN messages AS m ON m.message_id = split_part(search.text_id, ' ', 1)
 WHERE search.conversation_id = ANY (%(ids)s) AND {matches}
""")

# Counted, as a join would read the whole table for NOT EXISTS.
_WITHOUT = sql.SQL("""
   AND (SELECT count(*) FROM search AS other WHERE other.conversation_id = c.conversation_id
                                               AND other.words @@ %(excluded)s::tsquery) = 0""")

_MATCHES = {
    "matching": sql.SQL("words @@ %(matching)s::tsquery"),
    "since": sql.SQL("search.at >= %(since)s"),
    "until": sql.SQL("search.at < %(until)s"),
}
