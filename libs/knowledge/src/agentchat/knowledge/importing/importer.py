"""Import documents into a knowledge base: rows, chunks, and the audit entry."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Literal, Protocol

import msgspec
import psycopg

from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.knowledge.embedding import vectors
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.errors import EmbedderUnavailable
from agentchat.knowledge.importing import document_drafts
from agentchat.knowledge.importing.document_drafts import ChunkRow, CutDocument, Draft
from agentchat.knowledge.reading import read_file
from agentchat.knowledge.reading.file_errors import UnreadableFile
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

_SECONDS = 120.0

Outcome = Literal["added", "changed", "unchanged"]


class Note(Protocol):
    """Adds an audit row in the transaction of `conn`; `administration.admin.Admin.note` is one.

    It is passed in because only `administration` writes to the audit log. No row may hold a document's text.
    """

    def __call__(
        self, conn: Connection, action: str, kind: str, subject: str, *, before: Any = None, after: Any = None
    ) -> Awaitable[None]:
        """Add an audit row."""
        ...


_PORTION = 500  # so that each statement stays well within its time


class Base(msgspec.Struct, frozen=True):
    """A knowledge base: its number and language."""

    knowledge_base_id: str
    number: int
    language: str


class KnownDocument(msgspec.Struct, frozen=True):
    """A stored document without its chunks. Goes into audit rows."""

    knowledge_base_id: str
    name: str
    title: str
    url: str
    kind: str
    characters: int
    chunks: int
    digest: str


async def find_base(conn: Connection, account_id: str, knowledge_base_id: str) -> Base:
    """Return the account's knowledge base. Raises NotFound, also for another account's."""
    cursor = await conn.execute(
        "SELECT number, language FROM knowledge_bases WHERE account_id = %s AND knowledge_base_id = %s",
        [account_id, knowledge_base_id],
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("knowledge base", knowledge_base_id)
    return Base(knowledge_base_id, *row)


async def find_known(conn: Connection, document_id: str, *, lock: bool = False) -> KnownDocument | None:
    """Return the document as it is stored; `lock` holds its row until the transaction ends."""
    cursor = await conn.execute(_KNOWN + ("FOR UPDATE" if lock else ""), [document_id])
    row = await cursor.fetchone()
    return None if row is None else KnownDocument(*row)


async def replace_document(
    conn: Connection, base: Base, document: CutDocument, note: Note
) -> KnownDocument | None:
    """Store the document in the open transaction and return what it replaced.

    Unchanged chunks stay. Raises NotFound if the knowledge base was deleted meanwhile.
    """
    before = await find_known(conn, document.document_id, lock=True)
    after = KnownDocument(
        knowledge_base_id=base.knowledge_base_id,
        name=document.name,
        title=document.title,
        url=document.url,
        kind=document.kind,
        characters=document.characters,
        chunks=len(document.rows),
        digest=document.digest.hex(),
    )
    try:
        await conn.execute(_PUT, msgspec.structs.asdict(after) | {"document_id": document.document_id})
    except psycopg.errors.ForeignKeyViolation:
        raise NotFound("knowledge base", base.knowledge_base_id) from None
    ids = [row.chunk_id for row in document.rows]
    await conn.execute(
        "DELETE FROM chunks WHERE document_id = %s AND chunk_id <> ALL(%s)", [document.document_id, ids]
    )
    for start in range(0, len(document.rows), _PORTION):
        await _put_chunks(conn, base, document.document_id, document.rows[start : start + _PORTION])
    action = "create" if before is None else "change"
    await note(conn, action, "document", document.document_id, before=before, after=after)
    return before


async def _put_chunks(conn: Connection, base: Base, document_id: str, rows: Sequence[ChunkRow]) -> None:
    columns = {name: [getattr(row, name) for row in rows] for name in ChunkRow.__struct_fields__}
    await conn.execute(
        _PUT_CHUNKS,
        columns
        | {
            "document": document_id,
            "base": base.knowledge_base_id,
            "mark": f"#{base.number}",
            "language": f"pg_catalog.{base.language}",
        },
    )


_KNOWN = """
SELECT knowledge_base_id, name, title, url, kind, characters, chunks, encode(digest, 'hex')
  FROM documents WHERE document_id = %s
"""

_PUT = """
INSERT INTO documents (document_id, knowledge_base_id, name, title, url, kind, digest, characters, chunks)
VALUES (%(document_id)s, %(knowledge_base_id)s, %(name)s, %(title)s, %(url)s, %(kind)s,
        decode(%(digest)s, 'hex'), %(characters)s, %(chunks)s)
ON CONFLICT (document_id) DO UPDATE SET
    title = excluded.title, url = excluded.url, kind = excluded.kind, digest = excluded.digest,
    characters = excluded.characters, chunks = excluded.chunks, imported_at = now()
"""

# Documents in English and German are found by other forms of a word too, whatever the language of their
# knowledge base: their stems in these languages are added, without positions.
_PUT_CHUNKS = """
INSERT INTO chunks (chunk_id, document_id, knowledge_base_id, position, title, text, words)
SELECT chunk_id, %(document)s, %(base)s, position, title, text,
       setweight(to_tsvector(%(language)s::regconfig, title_words), 'A')
           || setweight(to_tsvector(%(language)s::regconfig, text_words), 'B')
           || strip(to_tsvector('pg_catalog.english', title_words || ' ' || text_words))
           || strip(to_tsvector('pg_catalog.german', title_words || ' ' || text_words))
           || array_to_tsvector(ARRAY[%(mark)s::text])
  FROM unnest(%(chunk_id)s::text[], %(position)s::integer[], %(title)s::text[], %(text)s::text[],
              %(title_words)s::text[], %(text_words)s::text[])
       AS new (chunk_id, position, title, text, title_words, text_words)
ON CONFLICT (chunk_id) DO UPDATE SET position = excluded.position, words = excluded.words
 WHERE (chunks.position, chunks.words) IS DISTINCT FROM (excluded.position, excluded.words)
"""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an import.

    `chunks` is the number of the document's chunks. `lacking` says why some have no embedding yet: they are
    found by full text, and importing the document again retries.
    """

    document_id: str
    title: str
    outcome: Outcome
    chunks: int
    lacking: str | None = None
    warnings: tuple[str, ...] = ()


async def read_text(draft: Draft) -> Draft:
    """Return the draft with the text of its file, if it has one. Raises Invalid."""
    if draft.content is None:
        return draft
    try:
        text, warnings = await read_file.convert_file(draft.content, draft.kind)
    except UnreadableFile as unfit:
        raise Invalid("content", unfit.reason) from None
    return msgspec.structs.replace(draft, text=text, warnings=draft.warnings + warnings)


async def import_document(
    pool: Pool,
    account_id: str,
    knowledge_base_id: str,
    draft: Draft,
    *,
    note: Note,
    embedder: Embedder | None = None,
) -> Imported:
    """Add the document, or replace the one of its name in one transaction; equal content changes nothing.

    Raises Invalid, NotFound, DatabaseUnavailable; then nothing was changed.
    """
    draft = document_drafts.check_draft(draft)
    async with acquire_connection(pool) as conn:
        base = await find_base(conn, account_id, knowledge_base_id)
        own_id = document_drafts.derive_document_id(knowledge_base_id, draft.name)
        known = await find_known(conn, own_id)
    if known is not None and known.digest == (await asyncio.to_thread(document_drafts.digest, draft)).hex():
        done = Imported(document_id=own_id, title=known.title, outcome="unchanged", chunks=known.chunks)
    else:
        draft = await read_text(draft)
        document = await asyncio.to_thread(document_drafts.cut, knowledge_base_id, draft)
        async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
            before = await replace_document(conn, base, document, note)
        outcome: Outcome = "added" if before is None else "changed"
        done = Imported(
            document_id=own_id,
            title=document.title,
            outcome=outcome,
            chunks=len(document.rows),
            warnings=draft.warnings,
        )
    return done if embedder is None else await _embed(pool, done, embedder)


async def _embed(pool: Pool, done: Imported, embedder: Embedder) -> Imported:
    try:
        await vectors.add_missing(pool, done.document_id, embedder)
    except EmbedderUnavailable as error:
        return msgspec.structs.replace(done, lacking=str(error))
    return done
