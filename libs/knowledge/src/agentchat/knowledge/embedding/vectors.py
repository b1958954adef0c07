"""Store embeddings of chunks after their document was stored, and search them.

Embeddings are derived from the chunks and may be missing at any time; a chunk without one is found by full
text.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import psycopg
from psycopg.sql import SQL, Literal

from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.errors import EmbedderUnavailable
from agentchat.runtime import logs
from agentchat.runtime.postgres import CALL_SECONDS, Connection, DatabaseUnavailable, Pool, acquire_connection

BATCH = 64
_EMBED_SECONDS = 60.0
_STORE_SECONDS = 10.0
_NEAREST = 50


async def check_usable(pool: Pool, embedder: Embedder | None) -> Embedder | None:
    """Return the embedder if the database can store its vectors; else log that and return None.

    Called once at start. If Postgres does not answer yet, the embedder is assumed to be usable.
    """
    if embedder is None:
        return None
    try:
        async with acquire_connection(pool) as conn:
            cursor = await conn.execute("SELECT to_regclass('chunk_embeddings') IS NOT NULL")
            if await cursor.fetchone() == (True,):
                return embedder
    except DatabaseUnavailable:
        return embedder
    log = logs.get_logger("knowledge")
    log.warning(
        "no pgvector in the database: knowledge is searched by full text only", embedder=embedder.name
    )
    return None


async def add_missing(pool: Pool, document_id: str, embedder: Embedder) -> int:
    """Embed the document's chunks that have no vector; return how many. Idempotent.

    Raises DatabaseUnavailable, EmbedderUnavailable; what was embedded before that is kept.
    """
    added = 0
    asked = {"document": document_id, "embedder": get_key(embedder), "limit": BATCH}
    while True:
        async with _connect(pool) as conn:
            rows = await (await conn.execute(_MISSING, asked)).fetchall()
        if not rows:
            return added
        vectors = await embed(embedder, [f"{title}\n\n{text}" for _, title, text in rows], _EMBED_SECONDS)
        values = {"ids": [row[0] for row in rows], "vectors": [format_literal(vector) for vector in vectors]}
        async with acquire_connection(pool, seconds=_STORE_SECONDS) as conn:
            await conn.execute(_ADD, asked | values)
        added += len(rows)


async def embed_missing(
    pool: Pool,
    embedder: Embedder,
    *,
    knowledge_base_id: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Embed chunks without a vector, in one knowledge base or in all; return how many. Idempotent.

    Needed after an import without an embedder, and for a new model: a document's vectors of other embedders
    are deleted once it has those of this one. `progress` gets the number of finished documents and of all.
    Raises DatabaseUnavailable, EmbedderUnavailable; what was embedded before that is kept.
    """
    asked = {"base": knowledge_base_id, "embedder": get_key(embedder)}
    async with _connect(pool, _STORE_SECONDS) as conn:
        documents = await (await conn.execute(_LACKING, asked)).fetchall()
    added = 0
    for done, (document_id,) in enumerate(documents, start=1):
        added += await add_missing(pool, document_id, embedder)
        async with _connect(pool, _STORE_SECONDS) as conn:
            await conn.execute(_DROP_OTHERS, asked | {"document": document_id})
        if progress is not None:
            progress(done, len(documents))
    return added


async def find_nearest(
    pool: Pool, knowledge_base_id: str, embedder: Embedder, vector: Sequence[float]
) -> list[str]:
    """Return the ids of the chunks that are similar enough, best first, at most 50.

    Uses the HNSW index that the migrations have built (`knowledge.migrations`); an iterative scan continues
    in it until enough chunks are of this knowledge base. Without an index all vectors of the knowledge base
    are compared and the answer is exact. Raises DatabaseUnavailable, EmbedderUnavailable.
    """
    statement = SQL(_NEAREST_CHUNKS).format(
        embedder=Literal(get_key(embedder)), dimensions=Literal(embedder.dimensions)
    )
    asked = {
        "base": knowledge_base_id,
        "vector": format_literal(vector),
        "most": 1 - embedder.least_similarity,
        "limit": _NEAREST,
    }
    async with _connect(pool) as conn, conn.transaction():
        await conn.execute("SET LOCAL hnsw.iterative_scan = strict_order")
        rows = await (await conn.execute(statement, asked)).fetchall()
    return [chunk_id for (chunk_id,) in rows]


async def embed(
    embedder: Embedder, texts: Sequence[str], seconds: float, *, question: bool = False
) -> list[list[float]]:
    """Return the embedder's vectors, checked. Raises EmbedderUnavailable, also after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            vectors = await embedder.embed(texts, question=question)
    except TimeoutError:
        raise EmbedderUnavailable(f"{embedder.name} has not answered within {seconds:g} s") from None
    wrong = (len(vector) != embedder.dimensions or not all(map(math.isfinite, vector)) for vector in vectors)
    if len(vectors) != len(texts) or any(wrong):
        raise EmbedderUnavailable(f"{embedder.name} gave other vectors than were requested")
    return vectors


@asynccontextmanager
async def _connect(pool: Pool, seconds: float = CALL_SECONDS) -> AsyncIterator[Connection]:
    """Take a connection for statements on vectors.

    Raises EmbedderUnavailable if there is no table for them.
    """
    try:
        async with acquire_connection(pool, seconds=seconds) as conn:
            yield conn
    except psycopg.errors.UndefinedTable:
        raise EmbedderUnavailable("the database has no pgvector") from None


def get_key(embedder: Embedder) -> str:
    """Return the key under which vectors are stored: only vectors of one length can be compared."""
    return f"{embedder.name}/{embedder.dimensions}"


def format_literal(vector: Sequence[float]) -> str:
    """Return a vector in pgvector's notation."""
    return f"[{','.join(format(value, '.7g') for value in vector)}]"


_MISSING = """
SELECT chunk_id, title, text FROM chunks c
 WHERE document_id = %(document)s
   AND NOT EXISTS (SELECT FROM chunk_embeddings e WHERE e.chunk_id = c.chunk_id AND e.embedder = %(embedder)s)
 ORDER BY position LIMIT %(limit)s
"""

# Documents with a chunk that lacks a vector, or that has one of another embedder.
_LACKING = """
SELECT c.document_id FROM chunks c LEFT JOIN chunk_embeddings e USING (chunk_id)
 WHERE c.knowledge_base_id = coalesce(%(base)s, c.knowledge_base_id)
   AND e.embedder IS DISTINCT FROM %(embedder)s
 GROUP BY c.document_id ORDER BY c.document_id
"""

_DROP_OTHERS = """
DELETE FROM chunk_embeddings e USING chunks c
 WHERE e.chunk_id = c.chunk_id AND c.document_id = %(document)s AND e.embedder <> %(embedder)s
"""

_ADD = """
INSERT INTO chunk_embeddings (chunk_id, embedder, knowledge_base_id, embedding)
SELECT c.chunk_id, %(embedder)s, c.knowledge_base_id, new.embedding::vector
  FROM unnest(%(ids)s::text[], %(vectors)s::text[]) AS new (chunk_id, embedding)
  JOIN chunks c USING (chunk_id)
   FOR KEY SHARE OF c
    ON CONFLICT DO NOTHING
"""

_NEAREST_CHUNKS = """
SELECT chunk_id FROM (
    SELECT chunk_id, embedding::vector({dimensions}) <=> %(vector)s::vector({dimensions}) AS distance
      FROM chunk_embeddings
     WHERE knowledge_base_id = %(base)s AND embedder = {embedder}
     ORDER BY embedding::vector({dimensions}) <=> %(vector)s::vector({dimensions}) LIMIT %(limit)s) AS nearest
 WHERE distance <= %(most)s ORDER BY distance, chunk_id
"""
