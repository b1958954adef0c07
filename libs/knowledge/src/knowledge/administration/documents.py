"""Documents: listed, shown and deleted. They are made and changed by `knowledge.importing`."""

from datetime import datetime

import msgspec

from knowledge.audit import Audit
from knowledge.documents import Chunk
from knowledge.errors import NotFound
from runtime.postgres import Connection

_PORTION = 2000  # chunks that one statement deletes, so that it stays within its time


class Document(msgspec.Struct, frozen=True):
    """`name` is its identity in the knowledge base; `url` is empty where it has none."""

    document_id: str
    knowledge_base_id: str
    name: str
    title: str
    url: str
    kind: str
    characters: int
    chunks: int
    imported_at: datetime


async def list_documents(
    conn: Connection, account_id: str, knowledge_base_id: str, *, after: str = "", limit: int = 100
) -> list[Document]:
    """The documents whose names come after `after`, in the order of their names."""
    cursor = await conn.execute(
        f"{_DOCUMENT} AND d.name > %(after)s ORDER BY d.name LIMIT %(limit)s",
        {"account": account_id, "base": knowledge_base_id, "after": after, "limit": limit},
    )
    return [Document(*row) for row in await cursor.fetchall()]


async def find_document(
    conn: Connection, account_id: str, knowledge_base_id: str, document_id: str
) -> Document | None:
    """The document; None where there is none."""
    cursor = await conn.execute(
        f"{_DOCUMENT} AND d.document_id = %(document)s",
        {"account": account_id, "base": knowledge_base_id, "document": document_id},
    )
    row = await cursor.fetchone()
    return None if row is None else Document(*row)


async def list_chunks(
    conn: Connection,
    account_id: str,
    knowledge_base_id: str,
    document_id: str,
    *,
    after: int = 0,
    limit: int = 100,
) -> list[Chunk]:
    """A document's chunks from position `after` + 1 on."""
    cursor = await conn.execute(
        _CHUNKS,
        {
            "account": account_id,
            "base": knowledge_base_id,
            "document": document_id,
            "after": after,
            "limit": limit,
        },
    )
    return [Chunk(*row) for row in await cursor.fetchall()]


async def delete_document(
    conn: Connection, account_id: str, knowledge_base_id: str, document_id: str, *, audit: Audit
) -> None:
    """With its chunks and their embeddings. Raises NotFound."""
    async with conn.transaction():
        before = await find_document(conn, account_id, knowledge_base_id, document_id)
        if before is None:
            raise NotFound("document", document_id)
        await delete_documents(conn, knowledge_base_id, document_id)
        await audit.note(conn, "delete", "document", document_id, before=before)


async def delete_documents(conn: Connection, knowledge_base_id: str, document_id: str | None = None) -> None:
    """One document, or all, within the caller's transaction; chunks go in portions.

    The documents are locked first, as an import does it: the other way round the two could block each other.
    """
    asked = {"base": knowledge_base_id, "document": document_id, "limit": _PORTION}
    await conn.execute(_LOCK, asked)
    while (await conn.execute(_DELETE_CHUNKS, asked)).rowcount == _PORTION:
        pass
    await conn.execute(_DELETE, asked)


_DOCUMENT = """
SELECT d.document_id, d.knowledge_base_id, d.name, d.title, d.url, d.kind, d.characters, d.chunks,
       d.imported_at
  FROM knowledge_bases b JOIN documents d USING (knowledge_base_id)
 WHERE b.account_id = %(account)s AND b.knowledge_base_id = %(base)s
"""

_CHUNKS = """
SELECT c.position, c.title, c.text
  FROM knowledge_bases b JOIN documents d USING (knowledge_base_id) JOIN chunks c USING (document_id)
 WHERE b.account_id = %(account)s AND b.knowledge_base_id = %(base)s AND d.document_id = %(document)s
   AND c.position > %(after)s
 ORDER BY c.position LIMIT %(limit)s
"""

_LOCK = """
SELECT FROM documents WHERE knowledge_base_id = %(base)s AND document_id = coalesce(%(document)s, document_id)
 ORDER BY document_id FOR UPDATE
"""

_DELETE_CHUNKS = """
DELETE FROM chunks WHERE chunk_id IN (
    SELECT c.chunk_id FROM documents d JOIN chunks c USING (document_id)
     WHERE d.knowledge_base_id = %(base)s AND d.document_id = coalesce(%(document)s, d.document_id)
     LIMIT %(limit)s)
"""

_DELETE = """
DELETE FROM documents WHERE knowledge_base_id = %(base)s AND document_id = coalesce(%(document)s, document_id)
"""
