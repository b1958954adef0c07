"""Documents into a knowledge base."""

import asyncio
from typing import Literal

import msgspec

from contracts.admin_errors import Invalid
from knowledge.embedding import vectors
from knowledge.embedding.embedder import Embedder
from knowledge.errors import EmbedderUnavailable
from knowledge.importing import drafts, tables
from knowledge.importing.drafts import Draft
from knowledge.importing.tables import Note
from knowledge.reading import read_file
from knowledge.reading.unfit import UnreadableFile
from runtime.postgres import Pool, connection

_SECONDS = 120.0

Outcome = Literal["added", "changed", "unchanged"]


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a document. `chunks` is how many it has; `lacking` says why some have no embedding yet:
    they are found by full text, and another import of the document tries again.
    """

    document_id: str
    title: str
    outcome: Outcome
    chunks: int
    lacking: str | None = None


async def read(draft: Draft) -> Draft:
    """With its text, if that is in a file. Raises Invalid."""
    if draft.content is None:
        return draft
    try:
        text = await read_file.html_of(draft.content, draft.kind)
    except UnreadableFile as unfit:
        raise Invalid("content", unfit.reason) from None
    return msgspec.structs.replace(draft, text=text)


async def import_document(
    pool: Pool,
    account_id: str,
    knowledge_base_id: str,
    draft: Draft,
    *,
    note: Note,
    embedder: Embedder | None = None,
) -> Imported:
    """Add the document, or replace the one of its name in one transaction; the same content changes nothing.

    Raises Invalid, NotFound, DatabaseUnavailable: then all is as it was.
    """
    draft = drafts.checked(draft)
    async with connection(pool) as conn:
        base = await tables.find_base(conn, account_id, knowledge_base_id)
        own_id = drafts.document_id(knowledge_base_id, draft.name)
        known = await tables.find_known(conn, own_id)
    if known is not None and known.digest == (await asyncio.to_thread(drafts.digest, draft)).hex():
        done = Imported(document_id=own_id, title=known.title, outcome="unchanged", chunks=known.chunks)
    else:
        document = await asyncio.to_thread(drafts.cut, knowledge_base_id, await read(draft))
        async with connection(pool, seconds=_SECONDS) as conn, conn.transaction():
            before = await tables.replace(conn, base, document, note)
        outcome: Outcome = "added" if before is None else "changed"
        done = Imported(document_id=own_id, title=document.title, outcome=outcome, chunks=len(document.rows))
    return done if embedder is None else await _embedded(pool, done, embedder)


async def _embedded(pool: Pool, done: Imported, embedder: Embedder) -> Imported:
    try:
        await vectors.add_missing(pool, done.document_id, embedder)
    except EmbedderUnavailable as error:
        return msgspec.structs.replace(done, lacking=str(error))
    return done
