"""Documents into a knowledge base: one, or every file of some folders."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Literal

import msgspec

from knowledge import drafts, embeddings, stored
from knowledge.audit import Audit
from knowledge.drafts import Draft
from knowledge.embedding import Embedder
from knowledge.errors import EmbedderUnavailable, Invalid, Unreadable
from knowledge.files import Found, draft_of
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


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One file done: imported, or skipped for `reason`. `done` of `total` counts both."""

    name: str
    done: int
    total: int
    imported: Imported | None = None
    reason: str | None = None


async def import_document(
    pool: Pool,
    account_id: str,
    knowledge_base_id: str,
    draft: Draft,
    *,
    audit: Audit,
    embedder: Embedder | None = None,
) -> Imported:
    """Add the document, or replace the one of its name in one transaction; the same content changes nothing.

    Raises Invalid, NotFound, DatabaseUnavailable: then all is as it was.
    """
    draft = drafts.checked(draft)
    async with connection(pool) as conn:
        base = await stored.find_base(conn, account_id, knowledge_base_id)
        own_id = drafts.document_id(knowledge_base_id, draft.name)
        known = await stored.find_known(conn, own_id)
    if known is not None and known.digest == (await asyncio.to_thread(drafts.digest, draft)).hex():
        done = Imported(document_id=own_id, title=known.title, outcome="unchanged", chunks=known.chunks)
    else:
        document = await asyncio.to_thread(drafts.cut, knowledge_base_id, draft)
        async with connection(pool, seconds=_SECONDS) as conn, conn.transaction():
            before = await stored.replace(conn, base, document, audit)
        outcome: Outcome = "added" if before is None else "changed"
        done = Imported(document_id=own_id, title=document.title, outcome=outcome, chunks=len(document.rows))
    return done if embedder is None else await _embedded(pool, done, embedder)


async def import_files(
    pool: Pool,
    account_id: str,
    knowledge_base_id: str,
    files: Iterable[Found],
    *,
    audit: Audit,
    embedder: Embedder | None = None,
) -> AsyncIterator[Progress]:
    """Import what `files.find` found, one at a time; what cannot be read is told and passed over.

    Raises NotFound, DatabaseUnavailable; what was imported until then stays, and another import goes on.
    """
    files = list(files)
    for done, found in enumerate(files, start=1):
        progress = Progress(name=found.name, done=done, total=len(files))
        try:
            draft = await asyncio.to_thread(draft_of, found)
            imported = await import_document(
                pool, account_id, knowledge_base_id, draft, audit=audit, embedder=embedder
            )
        except (Unreadable, Invalid) as error:
            yield msgspec.structs.replace(progress, reason=error.reason)
        else:
            yield msgspec.structs.replace(progress, imported=imported)


async def _embedded(pool: Pool, done: Imported, embedder: Embedder) -> Imported:
    try:
        await embeddings.add_missing(pool, done.document_id, embedder)
    except EmbedderUnavailable as error:
        return msgspec.structs.replace(done, lacking=str(error))
    return done
