"""Create the tables of knowledge bases. Steps are only ever added.

The import fills `words`; they are not generated, since Python splits them (`knowledge.search.search_words`)
and a generated column would need the language as `regconfig`, which pg_upgrade does not support. `words` also
holds the word `#<number>` of the knowledge base, so that the index finds a word within one knowledge
base, however much others hold.

Embeddings have a table of their own, which exists only if the pgvector extension is available; without it,
search is by full text. A later migration creates it once the extension is there. Each run also builds an HNSW
index for each embedder that has vectors, since an index is for one number of dimensions.
"""

import hashlib

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from agentchat.runtime import logs, migrations
from agentchat.runtime.postgres import Connection

COMPONENT = "knowledge"
VECTORS_COMPONENT = "knowledge vectors"

_TABLES = """
CREATE TABLE knowledge_bases (
    knowledge_base_id text PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY,
    account_id text NOT NULL REFERENCES accounts ON DELETE CASCADE,
    name text NOT NULL,
    language text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz
);
CREATE INDEX knowledge_bases_by_account ON knowledge_bases (account_id);
CREATE TABLE documents (
    document_id text PRIMARY KEY,
    knowledge_base_id text NOT NULL REFERENCES knowledge_bases ON DELETE CASCADE,
    name text NOT NULL,
    title text NOT NULL,
    url text NOT NULL,
    kind text NOT NULL,
    digest bytea NOT NULL,
    characters integer NOT NULL,
    chunks integer NOT NULL,
    imported_at timestamptz NOT NULL DEFAULT now()
);
-- Not unique: a document's id follows from its knowledge base and its name, and a second unique index would
-- fail one of two imports at once instead of letting it wait.
CREATE INDEX documents_by_name ON documents (knowledge_base_id, name);
CREATE TABLE chunks (
    chunk_id text PRIMARY KEY,
    document_id text NOT NULL REFERENCES documents ON DELETE CASCADE,
    knowledge_base_id text NOT NULL,
    position integer NOT NULL,
    title text NOT NULL,
    text text NOT NULL,
    words tsvector NOT NULL
);
CREATE INDEX chunks_by_document ON chunks (document_id, position);
-- Without the list of pending entries, which every search would have to read through after an import.
CREATE INDEX chunks_by_word ON chunks USING gin (words) WITH (fastupdate = off);
GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge_bases, documents, chunks TO agentchat_service;
"""

# MAIN keeps a vector of up to 2,000 dimensions within its row: a scan then reads pages in order.
_EMBEDDINGS = """
CREATE TABLE chunk_embeddings (
    chunk_id text NOT NULL REFERENCES chunks ON DELETE CASCADE,
    embedder text NOT NULL,
    knowledge_base_id text NOT NULL,
    embedding vector NOT NULL,
    PRIMARY KEY (chunk_id, embedder)
);
ALTER TABLE chunk_embeddings ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX chunk_embeddings_by_knowledge_base ON chunk_embeddings (knowledge_base_id, embedder);
GRANT SELECT, INSERT, UPDATE, DELETE ON chunk_embeddings TO agentchat_service;
"""

STEPS = (_TABLES,)
VECTOR_STEPS = (_EMBEDDINGS,)

_NOT_TO_BE_HAD = (
    psycopg.errors.FeatureNotSupported,  # its files are not there
    psycopg.errors.UndefinedFile,
    psycopg.errors.InsufficientPrivilege,
)


async def migrate(database_url: str) -> None:
    """Create or update the tables; the directory's must exist. Idempotent; concurrent calls take turns.

    Raises agentchat.runtime.migrations.MigrationError, psycopg.Error.
    """
    async with migrations.open_migration(database_url) as conn:
        await migrations.apply(conn, COMPONENT, STEPS)
        if await _has_vectors(conn):
            await migrations.apply(conn, VECTORS_COMPONENT, VECTOR_STEPS)
            await _index_vectors(conn)


async def _index_vectors(conn: Connection) -> None:
    """Build missing indexes of vectors, and drop those of embedders without vectors."""
    embedders = await (await conn.execute("SELECT DISTINCT embedder FROM chunk_embeddings")).fetchall()
    wanted = {_INDEX + hashlib.sha256(key.encode()).hexdigest()[:12]: key for (key,) in embedders}
    rows = await (await conn.execute(_VECTOR_INDEXES, [_INDEX + "%"])).fetchall()
    present = {name for (name,) in rows}
    for name in present - wanted.keys():
        await conn.execute(SQL("DROP INDEX {}").format(Identifier(name)))
    for name in wanted.keys() - present:
        dimensions = int(wanted[name].rpartition("/")[2])
        statement = SQL(_INDEX_VECTORS).format(
            name=Identifier(name), dimensions=Literal(dimensions), embedder=Literal(wanted[name])
        )
        await conn.execute(statement)


async def _has_vectors(conn: Connection) -> bool:
    """Return True if pgvector is installed or could be installed now."""
    log = logs.get_logger("knowledge")
    cursor = await conn.execute("SELECT FROM pg_extension WHERE extname = 'vector'")
    if await cursor.fetchone() is not None:
        return True
    try:
        async with conn.transaction():
            await conn.execute("CREATE EXTENSION vector")
    except _NOT_TO_BE_HAD as error:
        reason = str(error).partition("\n")[0]
        log.info("no pgvector: knowledge is searched by full text only", reason=reason)
        return False
    log.info("pgvector is installed: knowledge can be searched by embeddings too")
    return True


_INDEX = "chunk_embeddings_hnsw_"
_VECTOR_INDEXES = """
SELECT indexname FROM pg_indexes WHERE tablename = 'chunk_embeddings' AND indexname LIKE %s
"""
_INDEX_VECTORS = """
CREATE INDEX {name} ON chunk_embeddings USING hnsw ((embedding::vector({dimensions})) vector_cosine_ops)
 WHERE embedder = {embedder}
"""
