"""The documents of a knowledge base: put there one by one or from files, listed, shown, deleted."""

from collections.abc import AsyncIterator, Collection, Iterable

import msgspec

from administration import knowledge as bases
from administration.admin import Admin
from administration.errors import Invalid, NotFound, outcomes
from administration.reading import bounded, checked, identifier, page_of
from administration.times import utc
from administration.values import Chunk, Deletion, Document, DocumentBody, NewDocument, Page, PutDocument, Use
from knowledge import administration as knowledge
from knowledge import importing
from knowledge.drafts import Draft
from knowledge.embeddings import usable
from knowledge.files import Found
from knowledge.importing import Progress

_LARGE_SECONDS = 120.0
_PORTION = 500


async def put(admin: Admin, knowledge_base_id: str, new: NewDocument) -> PutDocument:
    """Add it, or replace the one of its name; the same content changes nothing. Raises NotFound, Invalid."""
    new = checked(new)
    async with admin.connection() as conn:
        account_id, base_id = await bases.owner(conn, knowledge_base_id)
    with outcomes():
        done = await importing.import_document(
            admin.pool,
            account_id,
            base_id,
            Draft(**msgspec.structs.asdict(new)),
            audit=admin.audit,
            embedder=await usable(admin.pool, admin.embedder),
        )
    document = await get(admin, base_id, done.document_id)
    return PutDocument(document=document, outcome=done.outcome, lacking=done.lacking)


async def replace(admin: Admin, knowledge_base_id: str, document_id: str, body: DocumentBody) -> PutDocument:
    """Other content for a document that is there, under its name. Raises NotFound, Invalid."""
    present = await get(admin, knowledge_base_id, document_id)
    new = NewDocument(name=present.name, **msgspec.structs.asdict(checked(body)))
    return await put(admin, knowledge_base_id, new)


async def page(
    admin: Admin, knowledge_base_id: str, *, after: str | None = None, limit: int = 20
) -> Page[Document]:
    """By name. Raises NotFound."""
    limit = bounded(limit)
    async with admin.connection() as conn:
        account_id, base_id = await bases.owner(conn, knowledge_base_id)
        rows = await knowledge.list_documents(conn, account_id, base_id, after=after or "", limit=limit + 1)
    shown = [_shown(row) for row in rows]
    return page_of(shown, limit, shown[:limit][-1].name if shown else None)


async def get(admin: Admin, knowledge_base_id: str, document_id: str) -> Document:
    """Raises NotFound."""
    document_id = identifier("document", document_id)
    async with admin.connection() as conn:
        account_id, base_id = await bases.owner(conn, knowledge_base_id)
        found = await knowledge.find_document(conn, account_id, base_id, document_id)
    if found is None:
        raise NotFound("document", document_id)
    return _shown(found)


async def chunks(
    admin: Admin, knowledge_base_id: str, document_id: str, *, after: str | None = None, limit: int = 20
) -> Page[Chunk]:
    """The passages that it was cut into, in their order. Raises NotFound, Invalid for an odd `after`."""
    limit, present = bounded(limit), await get(admin, knowledge_base_id, document_id)
    if after is not None and not (after.isdecimal() and len(after) < 10):
        raise Invalid.of("after", "must be the position of a chunk")
    async with admin.connection() as conn:
        account_id, base_id = await bases.owner(conn, knowledge_base_id)
        rows = await knowledge.list_chunks(
            conn, account_id, base_id, present.id, after=int(after or 0), limit=limit + 1
        )
    return page_of(rows, limit, str(rows[:limit][-1].position) if rows else None)


async def delete(
    admin: Admin, knowledge_base_id: str, document_id: str, *, dry_run: bool = False
) -> Deletion:
    """With its chunks and their embeddings. Raises NotFound."""
    present = await get(admin, knowledge_base_id, document_id)
    if not dry_run:
        async with admin.connection(_LARGE_SECONDS) as conn:
            account_id, base_id = await bases.owner(conn, knowledge_base_id)
            await knowledge.delete_document(conn, account_id, base_id, present.id, audit=admin.audit)
    return Deletion(kind="document", id=present.id, dry_run=dry_run, goes=(Use("chunks", present.chunks),))


async def import_files(
    admin: Admin, knowledge_base_id: str, files: Iterable[Found]
) -> AsyncIterator[Progress]:
    """What `knowledge.files` found, one at a time; what cannot be read is told and passed over.

    Raises NotFound, DatabaseUnavailable: what was imported until then stays, and another import goes on.
    """
    async with admin.connection() as conn:
        account_id, base_id = await bases.owner(conn, knowledge_base_id)
    embedder = await usable(admin.pool, admin.embedder)
    with outcomes():
        async for progress in importing.import_files(
            admin.pool, account_id, base_id, files, audit=admin.audit, embedder=embedder
        ):
            yield progress


async def gone(admin: Admin, knowledge_base_id: str, kept: Collection[str]) -> tuple[Document, ...]:
    """The documents whose names are not among `kept`: an import no longer found them. Raises NotFound."""
    found: list[Document] = []
    async with admin.connection() as conn:
        account_id, base_id = await bases.owner(conn, knowledge_base_id)
        after = ""
        while rows := await knowledge.list_documents(conn, account_id, base_id, after=after, limit=_PORTION):
            found += [_shown(row) for row in rows if row.name not in kept]
            after = rows[-1].name
    return tuple(found)


def _shown(row: knowledge.Document) -> Document:
    fields = msgspec.structs.asdict(row)
    fields["imported_at"] = utc(row.imported_at)
    return Document(id=fields.pop("document_id"), **fields)
