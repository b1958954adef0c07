"""Read and delete knowledge bases as they are stored."""

from agentchat.administration.admin_values import KnowledgeBase
from agentchat.administration.audit_rows import record
from agentchat.administration.checked_input import parse_id
from agentchat.administration.row_pages import find_row
from agentchat.runtime.postgres import Connection

_PORTION = 2000  # chunks that one statement deletes, so that it stays within its time


async def find_base(conn: Connection, knowledge_base_id: str, *, lock: bool = False) -> KnowledgeBase:
    """Find a knowledge base, also a disabled one. Raises NotFound.

    `lock` locks its row until the transaction ends, so that no document is added. The lock is a statement of
    its own, since Postgres cannot lock rows of an aggregate.
    """
    base_id = parse_id("knowledge base", knowledge_base_id)
    if lock:
        await conn.execute("SELECT FROM knowledge_bases WHERE knowledge_base_id = %s FOR UPDATE", [base_id])
    query = f"{BASE} WHERE b.knowledge_base_id = %s GROUP BY b.knowledge_base_id"
    return await find_row(conn, KnowledgeBase, query, [base_id], "knowledge base", base_id)


async def lock_base(conn: Connection, account_id: str, knowledge_base_id: str) -> bool:
    """Lock the account's knowledge base against deletion. Return False if it does not exist."""
    cursor = await conn.execute(
        "SELECT FROM knowledge_bases WHERE account_id = %s AND knowledge_base_id = %s FOR KEY SHARE",
        [account_id, knowledge_base_id],
    )
    return await cursor.fetchone() is not None


async def delete_base(conn: Connection, knowledge_base_id: str, *, actor: str) -> None:
    """Delete a knowledge base with its documents in one transaction; a running import fails.

    Raises NotFound.
    """
    async with conn.transaction():
        before = await find_base(conn, knowledge_base_id, lock=True)
        await delete_documents(conn, before.id)
        await conn.execute("DELETE FROM knowledge_bases WHERE knowledge_base_id = %s", [before.id])
        await record(conn, actor, "delete", "knowledge base", before.id, before=before)


async def delete_documents(conn: Connection, knowledge_base_id: str, document_id: str | None = None) -> None:
    """Delete one document, or all, in the caller's transaction; chunks are deleted in portions.

    Documents are locked first, as imports do, so that the two cannot deadlock.
    """
    asked = {"base": knowledge_base_id, "document": document_id, "limit": _PORTION}
    await conn.execute(_LOCK, asked)
    while (await conn.execute(_DELETE_CHUNKS, asked)).rowcount == _PORTION:
        pass
    await conn.execute(_DELETE, asked)


BASE = """
SELECT b.knowledge_base_id, b.account_id, b.name, b.language, b.disabled_at IS NOT NULL, b.created_at,
       count(d.document_id), coalesce(sum(d.chunks), 0)
  FROM knowledge_bases b LEFT JOIN documents d USING (knowledge_base_id)"""

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
