"""Add, list, show and delete documents of a knowledge base."""

import msgspec

from agentchat.administration import admin_knowledge as bases
from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import (
    Deletion,
    Document,
    DocumentBody,
    NewDocument,
    Page,
    PutDocument,
)
from agentchat.administration.checked_input import parse_id, parse_number, validate
from agentchat.administration.knowledge_rows import delete_documents, find_base
from agentchat.administration.query_parameters import After, DryRun, Limit
from agentchat.administration.row_pages import fetch_page, find_row
from agentchat.contracts.admin_errors import Use
from agentchat.knowledge.documents import Chunk
from agentchat.knowledge.embedding.vectors import check_usable
from agentchat.knowledge.importing import importer
from agentchat.knowledge.importing.document_drafts import Draft
from agentchat.runtime.postgres import Connection

_LARGE_SECONDS = 120.0


async def put(admin: Admin, knowledge_base_id: str, new: NewDocument) -> PutDocument:
    """Add a document, or replace the one of its name (200); the same content changes nothing.

    Raises NotFound, Invalid.
    """
    new = validate(new)
    base = await bases.get(admin, knowledge_base_id)
    with translate_errors():
        done = await importer.import_document(
            admin.pool,
            base.account_id,
            base.id,
            Draft(**msgspec.structs.asdict(new)),
            note=admin.note,
            embedder=await check_usable(admin.pool, admin.embedder),
        )
    document = await get(admin, base.id, done.document_id)
    return PutDocument(document=document, outcome=done.outcome, lacking=done.lacking, warnings=done.warnings)


async def replace(admin: Admin, knowledge_base_id: str, document_id: str, body: DocumentBody) -> PutDocument:
    """Give a document other content. Raises NotFound, Invalid."""
    before = await get(admin, knowledge_base_id, document_id)
    new = NewDocument(name=before.name, **msgspec.structs.asdict(validate(body)))
    return await put(admin, knowledge_base_id, new)


async def page(
    admin: Admin, knowledge_base_id: str, *, after: After | None = None, limit: Limit = 20
) -> Page[Document]:
    """List a knowledge base's documents by name. Raises NotFound."""
    query = f"{_DOCUMENT} AND name > %(after)s ORDER BY name"
    async with admin.connection() as conn:
        asked = {"base": (await find_base(conn, knowledge_base_id)).id, "after": after or ""}
        return await fetch_page(conn, Document, query, asked, limit, by="name")


async def get(admin: Admin, knowledge_base_id: str, document_id: str) -> Document:
    """Get a document. Raises NotFound."""
    async with admin.connection() as conn:
        return await _find(conn, knowledge_base_id, document_id)


async def list_chunks(
    admin: Admin, knowledge_base_id: str, document_id: str, *, after: After | None = None, limit: Limit = 20
) -> Page[Chunk]:
    """List the passages of a document in their order. Raises NotFound, Invalid for an odd `after`."""
    position = parse_number(after, "the position of a chunk")
    async with admin.connection() as conn:
        document = await _find(conn, knowledge_base_id, document_id)
        asked = {"document": document.id, "after": position or 0}
        return await fetch_page(conn, Chunk, _CHUNKS, asked, limit, by="position")


async def delete(
    admin: Admin, knowledge_base_id: str, document_id: str, *, dry_run: DryRun = False
) -> Deletion:
    """Delete a document with its passages. Raises NotFound."""
    async with admin.transaction(_LARGE_SECONDS) as conn:
        before = await _find(conn, knowledge_base_id, document_id)
        if not dry_run:
            await delete_documents(conn, before.knowledge_base_id, before.id)
            await admin.note(conn, "delete", "document", before.id, before=before)
    return Deletion(kind="document", id=before.id, dry_run=dry_run, goes=(Use("chunks", before.chunks),))


async def _find(conn: Connection, knowledge_base_id: str, document_id: str) -> Document:
    base = await find_base(conn, knowledge_base_id)
    document_id = parse_id("document", document_id)
    query = f"{_DOCUMENT} AND document_id = %(document)s"
    return await find_row(
        conn, Document, query, {"base": base.id, "document": document_id}, "document", document_id
    )


_DOCUMENT = """
SELECT document_id, knowledge_base_id, name, title, url, kind, characters, chunks, imported_at
  FROM documents WHERE knowledge_base_id = %(base)s"""

_CHUNKS = """
SELECT position, title, text FROM chunks WHERE document_id = %(document)s AND position > %(after)s
 ORDER BY position"""
