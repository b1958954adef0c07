"""Knowledge bases. Their documents are in `documents`."""

from administration.admin import Admin
from administration.errors import Conflict, Invalid, NotFound, outcomes
from administration.holdings import NAMES
from administration.reading import bounded, checked, identifier, page_of
from administration.times import utc
from administration.values import Deletion, KnowledgeBase, KnowledgeBaseChanges, NewKnowledgeBase, Page, Use
from directory import administration as directory
from directory.administration import agent_rows
from directory.administration.agent_rows import Row, config_of
from directory.agent_draft import AgentChanges
from knowledge import administration as knowledge
from knowledge import errors
from knowledge.embeddings import usable
from knowledge.passages import Passage
from knowledge.search import search as find_passages
from runtime.postgres import Connection

_LARGE_SECONDS = 120.0


async def create(admin: Admin, new: NewKnowledgeBase) -> KnowledgeBase:
    """An empty one. Raises Invalid (for the account too), Conflict where the id is taken."""
    new = checked(new)
    async with admin.connection() as conn:
        try:
            made = await knowledge.create_knowledge_base(
                conn,
                new.account_id.lower(),
                name=new.name,
                language=new.language,
                knowledge_base_id=new.id and new.id.lower(),
                audit=admin.audit,
            )
        except errors.NotFound:
            raise Invalid.of("account_id", "there is no such account") from None
    return _shown(made)


async def page(
    admin: Admin, account_id: str | None = None, *, after: str | None = None, limit: int = 20
) -> Page[KnowledgeBase]:
    """By id; those of one account where it is given. Raises NotFound for the account."""
    account_id = account_id and identifier("account", account_id)
    limit = bounded(limit)
    async with admin.connection() as conn:
        if account_id and await directory.find_account(conn, account_id) is None:
            raise NotFound("account", account_id)
        rows = await knowledge.knowledge_bases_after(conn, account_id, after=after or "", limit=limit + 1)
    shown = [_shown(row) for row in rows]
    return page_of(shown, limit, shown[:limit][-1].id if shown else None)


async def get(admin: Admin, knowledge_base_id: str) -> KnowledgeBase:
    """Raises NotFound."""
    async with admin.connection() as conn:
        account_id, base_id = await owner(conn, knowledge_base_id)
        found = await knowledge.find_knowledge_base(conn, account_id, base_id)
    if found is None:
        raise NotFound("knowledge base", base_id)
    return _shown(found)


async def change(admin: Admin, knowledge_base_id: str, changes: KnowledgeBaseChanges) -> KnowledgeBase:
    """`disabled` counts from the next run on. Raises NotFound, Invalid."""
    changes = checked(changes)
    async with admin.transaction() as conn:
        account_id, base_id = await owner(conn, knowledge_base_id)
        base = await knowledge.lock_knowledge_base(conn, account_id, base_id)
        if isinstance(changes.name, str):
            base = await knowledge.rename_knowledge_base(
                conn, account_id, base_id, name=changes.name, audit=admin.audit
            )
        if isinstance(changes.disabled, bool):
            base = await knowledge.set_knowledge_base_disabled(
                conn, account_id, base_id, changes.disabled, audit=admin.audit
            )
    return _shown(base)


async def delete(
    admin: Admin, knowledge_base_id: str, *, force: bool = False, dry_run: bool = False
) -> Deletion:
    """With its documents. Refused while agents answer from it; `force` takes it out of them by a new version.

    Raises NotFound, Conflict.
    """
    async with admin.transaction(_LARGE_SECONDS) as conn:
        account_id, base_id = await owner(conn, knowledge_base_id)
        base = await knowledge.lock_knowledge_base(conn, account_id, base_id)
        using = await agent_rows.agents_that_use(conn, account_id, base_id)
        used = tuple(_use(using) for _ in using[:1])
        documents = (Use("documents", base.documents),) if base.documents else ()
        if dry_run:
            return Deletion(
                kind="knowledge base",
                id=base_id,
                dry_run=True,
                needs_force=bool(used) and not force,
                goes=documents,
                used_by=used,
            )
        if used and not force:
            count = used[0].count
            reason = f"{count} agent{'s' * (count > 1)} answer{'s' * (count == 1)} from the knowledge base"
            raise Conflict(f"{reason}; force takes it out of {'them' if count > 1 else 'it'}", used)
        for row in using:
            without = AgentChanges(retrieval=None)
            await directory.change_agent(
                conn, admin.sealer, account_id, row.agent_id, without, actor=admin.actor
            )
        await knowledge.delete_knowledge_base(conn, account_id, base_id, audit=admin.audit)
    return Deletion(kind="knowledge base", id=base_id, dry_run=False, goes=documents, used_by=used)


async def search(admin: Admin, knowledge_base_id: str, query: str, top_k: int = 5) -> tuple[Passage, ...]:
    """The passages that an agent would be given, best first; in a disabled one too, to see what it holds.

    Raises NotFound, Invalid.
    """
    if not 1 <= top_k <= 50:
        raise Invalid.of("top_k", "must be from 1 to 50")
    async with admin.connection() as conn:
        account_id, base_id = await owner(conn, knowledge_base_id)
    embedder = await usable(admin.pool, admin.embedder)
    with outcomes():
        query = query.replace("\x00", "\ufffd")
        return tuple(
            await find_passages(admin.pool, account_id, base_id, query, top_k, embedder, disabled_too=True)
        )


async def owner(conn: Connection, knowledge_base_id: str) -> tuple[str, str]:
    """The knowledge base's account and its own id as it is stored. Raises NotFound."""
    base_id = identifier("knowledge base", knowledge_base_id)
    account_id = await knowledge.account_of(conn, base_id)
    if account_id is None:
        raise NotFound("knowledge base", base_id)
    return account_id, base_id


def _use(rows: list[Row]) -> Use:
    return Use("agents", len(rows), tuple(config_of(row.config).name for row in rows[:NAMES]))


def _shown(row: knowledge.KnowledgeBase) -> KnowledgeBase:
    return KnowledgeBase(
        id=row.knowledge_base_id,
        account_id=row.account_id,
        name=row.name,
        language=row.language,
        disabled=row.disabled,
        created_at=utc(row.created_at),
        documents=row.documents,
        chunks=row.chunks,
    )
