"""Find the passages of a knowledge base that answer a question, best first.

By full text, a passage scores by the question's words that it holds, rare words more (the inverse document
frequency of BM25), and among equals by how often and where. So a question in whole sentences finds the
passages with most of its significant words. Words in quotes must be adjacent, if they are so anywhere.

With an embedder the ranking by meaning is added by reciprocal rank fusion.
"""

from collections.abc import Sequence

from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.values import Source
from agentchat.knowledge.embedding import vectors
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.errors import Disabled, EmbedderUnavailable
from agentchat.knowledge.search import search_words
from agentchat.knowledge.search.passages import Passage, build_snippet
from agentchat.runtime import logs, metrics
from agentchat.runtime.postgres import Pool, acquire_connection

MOST = 50
"""The most passages, however many are requested."""
EMBED_SECONDS = 3.0
"""How long a search waits for the embedder."""
_K = 60
"""The usual constant of reciprocal rank fusion: the larger, the less a rank counts."""
_LEAST = 0.25  # of the best full-text score: below that a passage only shares a common word


async def search(
    pool: Pool,
    account_id: str,
    knowledge_base_id: str,
    query: str,
    top_k: int,
    embedder: Embedder | None = None,
    *,
    disabled_too: bool = False,
    embed_seconds: float = EMBED_SECONDS,
) -> list[Passage]:
    """Return at most `top_k` passages, none if none fits. `source.index` counts from 1.

    `source.score` is from 0 to 1 and comparable within one answer. With full text only it is the share of the
    question's words, weighted by rarity, that the passage has, reduced if it has them only once; with an
    embedder it is the fused rank, 1.0 for first in both. `embedder` is the result of `vectors.check_usable`;
    if it does not answer in `embed_seconds`, it is left out. `disabled_too` is for administrators.

    Raises NotFound (also for another account's knowledge base), Disabled, DatabaseUnavailable.
    """
    question = search_words.parse_question(query)
    ranked = await _rank_by_text(pool, account_id, knowledge_base_id, question, disabled_too)
    if embedder is not None:
        by_meaning = await _rank_by_meaning(pool, knowledge_base_id, query, embedder, embed_seconds)
        if by_meaning is not None:
            ranked = fuse_rankings([[chunk_id for chunk_id, _ in ranked], by_meaning])
    return await _load_ranked(pool, knowledge_base_id, question, ranked[: max(0, min(top_k, MOST))])


async def _load_ranked(
    pool: Pool, knowledge_base_id: str, question: search_words.SearchQuery, ranked: list[tuple[str, float]]
) -> list[Passage]:
    """Load the passages, without those that were deleted since they were ranked."""
    if not ranked:
        return []
    asked = {"base": knowledge_base_id, "ids": [chunk_id for chunk_id, _ in ranked], "words": question.words}
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_CHUNKS, asked)).fetchall()
    found = {row[0]: row[1:] for row in rows}
    shown = [(chunk_id, score, *found[chunk_id]) for chunk_id, score in ranked if chunk_id in found]
    return [_build_passage(index, *each) for index, each in enumerate(shown, start=1)]


async def load_passages(
    pool: Pool, account_id: str, knowledge_base_id: str, sources: Sequence[Source]
) -> list[Passage]:
    """Load the passages of sources that were found before, for a run that continues.

    A passage that was changed or deleted since has its snippet as text. Raises DatabaseUnavailable.
    """
    if not sources:
        return []
    async with acquire_connection(pool) as conn:
        asked = {"account": account_id, "base": knowledge_base_id, "ids": [source.id for source in sources]}
        texts = dict(await (await conn.execute(_TEXTS, asked)).fetchall())
    return [Passage(source, texts.get(source.id, source.snippet)) for source in sources]


async def _rank_by_text(
    pool: Pool,
    account_id: str,
    knowledge_base_id: str,
    question: search_words.SearchQuery,
    disabled_too: bool,
) -> list[tuple[str, float]]:
    """Return ids of chunks with their scores, best first."""
    asked = {
        "account": account_id,
        "base": knowledge_base_id,
        "words": question.words,
        "phrases": " ".join(f'"{phrase}"' for phrase in question.phrases),
    }
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_RANKED, asked)).fetchall()
    if not rows:
        raise NotFound("knowledge base", knowledge_base_id)
    if rows[0][3] and not disabled_too:
        raise Disabled(knowledge_base_id)
    found = [row[:3] for row in rows if row[0] is not None]
    found = [row for row in found if row[2]] or found
    least = _LEAST * max((score for _, score, _ in found), default=0)
    return [(chunk_id, score) for chunk_id, score, _ in found if score >= least]


async def _rank_by_meaning(
    pool: Pool, knowledge_base_id: str, query: str, embedder: Embedder, seconds: float
) -> list[str] | None:
    """Return ids of chunks, best first; None if the embedder does not answer."""
    try:
        asked = [search_words.shorten_text(query)]
        [vector] = await vectors.embed(embedder, asked, seconds, question=True)
        return await vectors.find_nearest(pool, knowledge_base_id, embedder, vector)
    except EmbedderUnavailable as error:
        logs.get_logger("knowledge").warning("searched by full text only", reason=str(error))
        metrics.TEXT_ONLY_SEARCHES.inc()
        return None


def fuse_rankings(rankings: Sequence[Sequence[str]]) -> list[tuple[str, float]]:
    """Combine rankings by reciprocal rank fusion; return ids with scores, best first.

    Each ranking gives an id 1/(60 + its rank) (Cormack, Clarke, Buettcher 2009). The sum is divided by the
    largest possible one: 1.0 is first in every ranking, 0.5 first in one of two and absent from the other.
    Equal ids keep the order in which the rankings name them.
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for place, found in enumerate(ranking, start=1):
            scores[found] = scores.get(found, 0.0) + 1 / (_K + place)
    best = len(rankings) / (_K + 1)
    return [(found, score / best) for found, score in sorted(scores.items(), key=lambda entry: -entry[1])]


def _build_passage(
    index: int,
    chunk_id: str,
    score: float,
    title: str,
    text: str,
    url: str,
    kind: str,
    document_id: str,
    document: str,
    fragment: str,
) -> Passage:
    source = Source(
        index=index,
        id=chunk_id,
        title=title,
        url=url,
        source_type=kind,
        score=round(min(1.0, score), 4),
        snippet=build_snippet(text, fragment),
        document_id="" if url else document_id,
        document="" if url else document,
    )
    return Passage(source, text)


# A word of the question is found by its stem in the language of the knowledge base, and by its English and
# German stems, which are indexed too (`importing.importer`); stop words of that language are left out.
# One row with nulls if nothing is found, none if there is no such knowledge base. The chunks with a word come
# from the index alone (OFFSET 0 keeps that, whatever the planner expects). The words of the many chunks with
# a common word are not read: only the best 100, by the words that they hold, are weighed.
_RANKED = """
WITH base AS MATERIALIZED (
    SELECT knowledge_base_id, ('pg_catalog.' || language)::regconfig AS language,
           quote_literal('#' || number)::tsquery AS mark, disabled_at IS NOT NULL AS disabled
      FROM knowledge_bases WHERE account_id = %(account)s AND knowledge_base_id = %(base)s
), size AS (
    SELECT coalesce(sum(chunks), 0) AS total FROM documents WHERE knowledge_base_id = %(base)s
), stem AS MATERIALIZED (
    SELECT DISTINCT word, lexeme
      FROM base, unnest(string_to_array(%(words)s, ' ')) AS asked
           CROSS JOIN LATERAL unnest(tsvector_to_array(to_tsvector(language, asked))) AS word
           CROSS JOIN LATERAL unnest(word || tsvector_to_array(
               to_tsvector('pg_catalog.english', asked) || to_tsvector('pg_catalog.german', asked))) AS lexeme
), word AS MATERIALIZED (
    SELECT word, mark && string_agg(quote_literal(lexeme), ' | ')::tsquery AS marked
      FROM base, stem GROUP BY word, mark
), hit AS MATERIALIZED (
    SELECT word, place FROM word CROSS JOIN LATERAL (
        SELECT ctid AS place FROM chunks WHERE words @@ marked OFFSET 0) AS held
), weight AS MATERIALIZED (
    SELECT word, ln(1 + (total - count(place) + 0.5) / (count(place) + 0.5))::float8 AS idf
      FROM size, word LEFT JOIN hit USING (word) GROUP BY word, total
), best AS (
    SELECT place FROM hit JOIN weight USING (word) GROUP BY place ORDER BY sum(idf) DESC LIMIT 100
), scored AS (
    SELECT chunk_id, position, words, sum(idf * often / (often + 1)) / (SELECT sum(idf) FROM weight) AS score
      FROM base, best JOIN chunks ON chunks.ctid = best.place CROSS JOIN LATERAL (
           SELECT idf, max(coalesce(
                      cardinality(positions) + 2 * cardinality(array_positions(weights, 'A')), 1)) AS often
             FROM unnest(words) AS held (lexeme, positions, weights)
                  JOIN stem USING (lexeme) JOIN weight USING (word)
            GROUP BY word, idf
      ) AS found
     WHERE chunks.knowledge_base_id = base.knowledge_base_id
     GROUP BY chunk_id, position, words
)
SELECT chunk_id, score, phrase IS NOT NULL AND words @@ phrase, disabled
  FROM base LEFT JOIN scored ON true
       CROSS JOIN LATERAL (SELECT nullif(websearch_to_tsquery(language, %(phrases)s), '')) AS phrases (phrase)
 ORDER BY score DESC, position, chunk_id LIMIT 50
"""

_CHUNKS = """
WITH asked AS MATERIALIZED (
    SELECT language, coalesce(string_agg(quote_literal(lexeme), ' | '), '')::tsquery AS query
      FROM (SELECT ('pg_catalog.' || language)::regconfig AS language
              FROM knowledge_bases WHERE knowledge_base_id = %(base)s) AS base
           LEFT JOIN LATERAL unnest(tsvector_to_array(to_tsvector(language, %(words)s))) AS lexeme ON true
     GROUP BY language
)
SELECT c.chunk_id, c.title, c.text, d.url, d.kind, d.document_id, d.name,
       ts_headline(language, c.text, query,
                   'MaxFragments=1, MaxWords=70, MinWords=40, StartSel="", StopSel=""')
  FROM asked, chunks c JOIN documents d USING (document_id)
 WHERE c.chunk_id = ANY(%(ids)s) AND c.knowledge_base_id = %(base)s
"""

_TEXTS = """
SELECT c.chunk_id, c.text FROM knowledge_bases b JOIN chunks c USING (knowledge_base_id)
 WHERE b.account_id = %(account)s AND b.knowledge_base_id = %(base)s AND c.chunk_id = ANY(%(ids)s)
"""
