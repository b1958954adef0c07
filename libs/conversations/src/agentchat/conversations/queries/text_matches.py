"""Match the words of a search with the texts of conversations: which conversations have them, ranked.

If many of the newest conversations match, older ones are not looked at. If few match but many have the words,
such as those of a phrase, more of the newest are looked through. If these do not fill a page, the index of
words is asked, unless nearly all texts have the words. Each step has a bound, so that a search costs the same
wherever the words are (decision 133).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg import sql

from agentchat.conversations.projections.conversations_table import NOT_ERASED
from agentchat.conversations.projections.search_table import MAX_CHARACTERS, Origin
from agentchat.conversations.queries.search_query import Snippet, Stems, WordQuery
from agentchat.runtime.postgres import Connection

NEWEST = 1_000
"""The number of conversations that are looked through one by one, before the index of words is used."""

COMMON = 100
"""The number of matches among them from which on no others are searched."""

FREQUENT = 60
"""The number of them with the words in any order from which on more are looked through before the index.

The index would read 100 times as many texts.
"""

MORE = 3_000
"""The number of conversations that are looked through then, after the newest."""

TOO_FREQUENT = 400
"""The number from which on the index is not used at all, since nearly all texts would be read."""

MOST_TEXTS = 4_000
"""The most texts that are taken from the index and compared with a phrase."""

MOST_LOOKED_UP = 1_000
"""The most conversations with such texts, the newest ones, that are compared with the other conditions."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a conversation that matches best.

    `origin` says whose text it is. Feedback has the `message_id` of its reply; a text without one is the
    title or metadata.
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


class _Walk(msgspec.Struct, frozen=True):
    """The newest conversations: how many have the words in any order, and the ids of those that match.

    A walk `is_complete` if there are no older conversations than `last_id`.
    """

    is_complete: bool
    last_id: str | None
    having_words: int
    ids: list[str]
    ranks: list[float]

    def build_matches(self) -> TextMatches:
        return TextMatches(ids=self.ids, ranks=self.ranks, is_complete=self.is_complete)


class TextSearch:
    """A search for words in an open transaction; `conditions` are those on conversations as `c`.

    `values` are those of the conditions, with `account_id`, `account_ids`, `since` and `until`, any of which
    may be None.
    """

    def __init__(
        self,
        conn: Connection,
        query: WordQuery,
        conditions: Sequence[sql.Composable],
        values: Mapping[str, Any],
    ) -> None:
        self._conn = conn
        self._query = query
        self._conditions = conditions
        self._values = dict(values)
        self._stems: Stems = {}

    async def match(self, limit: int) -> TextMatches:
        """Return the conversations that match; at least `limit` of them if there are as many."""
        await self._load_words()
        enough = max(COMMON, limit)
        newest = await self._walk(max(NEWEST, limit), None)
        if newest.is_complete or len(newest.ids) >= enough:
            return newest.build_matches()
        if newest.having_words >= FREQUENT:
            more = await self._walk(max(MORE, limit), newest.last_id)
            found = TextMatches(
                ids=newest.ids + more.ids, ranks=newest.ranks + more.ranks, is_complete=more.is_complete
            )
            if more.is_complete or len(found.ids) >= limit or newest.having_words >= TOO_FREQUENT:
                return found
        await self._conn.execute("SET LOCAL enable_seqscan TO off")  # beginnings are misjudged
        found = await self._look_up(1)
        if found.is_complete or len(found.ids) >= limit or len(self._query.terms) == 1:
            return found
        return await self._look_up(2)

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

    async def _walk(self, most: int, before: str | None) -> _Walk:
        """Look through up to `most` of the newest conversations, or of those before the id of one."""
        ((looked_at, last_id, having_words, ids, ranks),) = await self._fetch(
            _WALKED, most=most, before_id=before
        )
        return _Walk(looked_at < most, last_id, having_words, ids or [], ranks or [])

    async def _look_up(self, terms: int) -> TextMatches:
        """Ask the index for texts with so many of the terms, and look for the others in these."""
        indexed = self._query.build_indexed_tsquery(self._stems, terms)
        ((texts, looked_up, ids, ranks),) = await self._fetch(
            _LOOKED_UP, indexed=indexed, most=MOST_TEXTS, most_looked_up=MOST_LOOKED_UP
        )
        return TextMatches(
            ids=ids or [], ranks=ranks or [], is_complete=texts < MOST_TEXTS and looked_up < MOST_LOOKED_UP
        )

    async def _load_words(self) -> None:
        rows = await self._fetch(_STEMS, asked=self._query.stemmed_words)
        stems: Stems = dict(rows)
        self._stems = stems
        words = self._query.build_tsquery(stems)
        self._values |= {
            "words": words,
            "in_any_order": words.replace(" <-> ", " & "),
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

# OFFSET keeps the order of the joins.
_WALKED = sql.SQL("""
WITH walked AS MATERIALIZED (
  SELECT c.conversation_id FROM conversations AS c
   WHERE listed AND (%(before_id)s::text IS NULL OR c.conversation_id < %(before_id)s){conditions}
   ORDER BY c.conversation_id DESC LIMIT %(most)s
), having_words AS MATERIALIZED (
  SELECT c.conversation_id, best.rank
    FROM walked AS c, LATERAL (
         SELECT count(*) AS texts,
                max(ts_rank_cd(words, %(words)s::tsquery, 1)) FILTER (WHERE {matches}) AS rank
           FROM search
          WHERE search.conversation_id = c.conversation_id AND words @@ %(in_any_order)s::tsquery
         OFFSET 0) AS best
   WHERE best.texts > 0
)
SELECT (SELECT count(*) FROM walked), (SELECT min(conversation_id) FROM walked),
       (SELECT count(*) FROM having_words), array_agg(c.conversation_id), array_agg(c.rank)
  FROM having_words AS c WHERE c.rank IS NOT NULL AND {not_erased}{without}
""")

# The index has no places: a phrase is looked for in each text that has its words, as are other terms.
_LOOKED_UP = sql.SQL("""
WITH having_words AS MATERIALIZED (
  SELECT conversation_id, CASE WHEN {matches} THEN ts_rank_cd(words, %(words)s::tsquery, 1) END AS rank
    FROM search
   WHERE words @@ %(indexed)s::tsquery AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
     AND (%(account_ids)s::text[] IS NULL OR account_id = ANY (%(account_ids)s)) LIMIT %(most)s
), best AS MATERIALIZED (
  SELECT conversation_id, max(rank) AS rank FROM having_words WHERE rank IS NOT NULL
   GROUP BY 1 ORDER BY 1 DESC LIMIT %(most_looked_up)s
)
SELECT (SELECT count(*) FROM having_words), (SELECT count(*) FROM best),
       array_agg(best.conversation_id), array_agg(best.rank)
  FROM best, LATERAL (
       SELECT FROM conversations AS c WHERE c.conversation_id = best.conversation_id AND listed
          AND {not_erased}{conditions}{without} OFFSET 0) AS c
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
