"""A search with its reasons, for those who look after a knowledge base."""

from collections.abc import Sequence

import msgspec

from knowledge.embedding.embedder import Embedder
from knowledge.search.passages import Passage
from knowledge.search.search import WEIGHED, Ranking, passages, rank
from runtime.postgres import Pool, connection


class Word(msgspec.Struct, frozen=True):
    """A word of the question as full text search has it: stemmed, and without those that say nothing.

    `passages` of the knowledge base hold it; `weight` is its inverse document frequency.
    """

    word: str
    passages: int
    weight: float


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """Why a passage was found. Places count from 1; None: it is not in that ranking.

    `share`, 0 to 1, is what full text gives it: of the weight of the question's words. `words` are those that
    it holds, `in_title` those of them that stand in its title, which counts for more.
    """

    passage: Passage
    place_by_text: int | None
    share: float | None
    place_by_meaning: int | None
    words: tuple[str, ...]
    in_title: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a search returns, and why. `by_text` and `by_meaning` are how many passages each ranking has.

    `phrases` stood in quotes: passages that hold them together come alone, if there are any. `embedder` None:
    full text alone decided, for there is none, or it did not answer.
    """

    words: tuple[Word, ...]
    phrases: tuple[str, ...]
    embedder: str | None
    by_text: int
    by_meaning: int
    found: tuple[Reasons, ...]


async def explain(
    pool: Pool, account_id: str, knowledge_base_id: str, query: str, top_k: int, embedder: Embedder | None
) -> Explanation:
    """As `search.search` for an operator, in a disabled knowledge base too. Raises as that does."""
    ranking = await rank(pool, account_id, knowledge_base_id, query, embedder, disabled_too=True)
    found = await passages(pool, knowledge_base_id, ranking, top_k)
    asked = {"account": account_id, "base": knowledge_base_id, "words": ranking.question.words}
    ids = [passage.source.id for passage in found]
    async with connection(pool) as conn:
        weights = await (await conn.execute(_WEIGHTS, asked)).fetchall()
        held = await (await conn.execute(_HELD, asked | {"ids": ids})).fetchall()
    return Explanation(
        words=tuple(Word(word, count, round(weight, 4)) for word, count, weight in weights),
        phrases=ranking.question.phrases,
        embedder=None if embedder is None or ranking.by_meaning is None else embedder.name,
        by_text=len(ranking.by_text),
        by_meaning=len(ranking.by_meaning or ()),
        found=tuple(_reasons(passage, ranking, held) for passage in found),
    )


def _reasons(passage: Passage, ranking: Ranking, held: Sequence[tuple[str, str, bool]]) -> Reasons:
    chunk_id = passage.source.id
    shares = dict(ranking.by_text)
    own = [(word, in_title) for found, word, in_title in held if found == chunk_id]
    return Reasons(
        passage=passage,
        place_by_text=_place(chunk_id, [found for found, _ in ranking.by_text]),
        share=round(shares[chunk_id], 4) if chunk_id in shares else None,
        place_by_meaning=_place(chunk_id, ranking.by_meaning or []),
        words=tuple(word for word, _ in own),
        in_title=tuple(word for word, in_title in own if in_title),
    )


def _place(chunk_id: str, ranking: Sequence[str]) -> int | None:
    return ranking.index(chunk_id) + 1 if chunk_id in ranking else None


_WEIGHTS = f"{WEIGHED} SELECT lexeme, chunks, idf FROM weight ORDER BY idf DESC, lexeme"  # noqa: S608 - constants

_HELD = f"""{WEIGHED}
SELECT chunk_id, lexeme, 'A' = ANY(weights)
  FROM chunks CROSS JOIN LATERAL unnest(words) AS held (lexeme, positions, weights) JOIN weight USING (lexeme)
 WHERE chunk_id = ANY(%(ids)s) ORDER BY idf DESC, lexeme
"""  # noqa: S608 - constants
