"""Create, change, search and delete knowledge bases."""

import psycopg

from agentchat.administration import admin_accounts
from agentchat.administration.admin import IS_IN_LIMIT, Admin, translate_errors
from agentchat.administration.admin_values import (
    Deletion,
    KnowledgeBase,
    KnowledgeBaseChanges,
    NewKnowledgeBase,
    Page,
)
from agentchat.administration.agent_rows import AgentRow, list_agents_that_use
from agentchat.administration.agent_versions import change_agent
from agentchat.administration.audit_rows import write
from agentchat.administration.checked_input import validate
from agentchat.administration.deletion_impact import NAMES
from agentchat.administration.knowledge_rows import BASE, delete_base, find_base
from agentchat.administration.query_parameters import After, DryRun, Force, Limit, OfAccount, Query, TopK
from agentchat.administration.row_pages import fetch_page, normalize_name
from agentchat.contracts.admin_errors import Conflict, Invalid, Use
from agentchat.contracts.ids import make_id
from agentchat.directory.agent_validation import AgentChanges
from agentchat.knowledge.embedding.vectors import check_usable
from agentchat.knowledge.search.passage_search import search as find_passages
from agentchat.knowledge.search.passages import Passage
from agentchat.runtime.postgres import Connection

_LARGE_SECONDS = 120.0


async def create(admin: Admin, new: NewKnowledgeBase) -> KnowledgeBase:
    """Create a knowledge base. Raises Invalid (for the account too), Conflict."""
    new = validate(new)
    base_id = new.id.lower() if new.id else make_id()
    async with admin.transaction() as conn:
        account_id = await admin_accounts.find_named_account(conn, new.account_id)
        await _check_language(conn, new.language)
        try:
            await conn.execute(
                "INSERT INTO knowledge_bases (knowledge_base_id, account_id, name, language) "
                "VALUES (%s, %s, %s, %s)",
                [base_id, account_id, normalize_name(new.name), new.language],
            )
        except psycopg.errors.UniqueViolation:
            raise Conflict.from_existing("knowledge base", base_id) from None
        made = await find_base(conn, base_id)
        await admin.note(conn, "create", "knowledge base", base_id, after=made)
    return made


async def page(
    admin: Admin, account_id: OfAccount | None = None, *, after: After | None = None, limit: Limit = 20
) -> Page[KnowledgeBase]:
    """List the knowledge bases, all or one account's. Raises NotFound for the account."""
    async with admin.connection() as conn:
        own = account_id and (await admin_accounts.find_account(conn, account_id)).id
        return await fetch_page(
            conn, KnowledgeBase, _PAGE, {"account": own, "after": after or "", **admin.limit}, limit
        )


async def get(admin: Admin, knowledge_base_id: str) -> KnowledgeBase:
    """Get a knowledge base. Raises NotFound."""
    async with admin.connection() as conn:
        return await find_base(conn, knowledge_base_id)


async def change(admin: Admin, knowledge_base_id: str, changes: KnowledgeBaseChanges) -> KnowledgeBase:
    """Rename a knowledge base, disable or enable it.

    `disabled` counts from the next run on. Raises NotFound, Invalid.
    """
    given = validate(changes).to_dict()
    if "name" in given:
        given["name"] = normalize_name(given["name"])
    async with admin.transaction() as conn:
        before = await find_base(conn, knowledge_base_id, lock=True)
        return await write(conn, admin.actor, "knowledge base", before, given)


async def delete(
    admin: Admin, knowledge_base_id: str, *, force: Force = False, dry_run: DryRun = False
) -> Deletion:
    """Delete a knowledge base with its documents; with force also where agents answer from it.

    Raises NotFound, Conflict.
    """
    async with admin.transaction(_LARGE_SECONDS) as conn:
        base = await find_base(conn, knowledge_base_id, lock=True)
        using = await list_agents_that_use(conn, base.account_id, base.id)
        used = tuple(_build_use(using) for _ in using[:1])
        if not dry_run:
            if used and not force:
                raise _build_conflict(used)
            for row in using:
                without = AgentChanges(retrieval=None)
                await change_agent(conn, admin.sealer, row.agent_id, without, actor=admin.actor)
            await delete_base(conn, base.id, actor=admin.actor)
    return Deletion(
        kind="knowledge base",
        id=base.id,
        dry_run=dry_run,
        needs_force=dry_run and bool(used) and not force,
        goes=(Use("documents", base.documents),) if base.documents else (),
        used_by=used,
    )


async def search(admin: Admin, knowledge_base_id: str, query: Query, top_k: TopK = 5) -> tuple[Passage, ...]:
    """Find the passages that an agent would be given, in a disabled one too. Raises NotFound, Invalid."""
    if not 1 <= top_k <= 50:
        raise Invalid("top_k", "must be from 1 to 50")
    base = await get(admin, knowledge_base_id)
    embedder = await check_usable(admin.pool, admin.embedder)
    words = query.replace("\x00", "\ufffd")  # which Postgres does not take
    with translate_errors():
        return tuple(
            await find_passages(
                admin.pool, base.account_id, base.id, words, top_k, embedder, disabled_too=True
            )
        )


async def _check_language(conn: Connection, language: str) -> None:
    """Check that Postgres has this text search configuration. Raises Invalid."""
    cursor = await conn.execute(
        "SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace ORDER BY cfgname"
    )
    known = [name for (name,) in await cursor.fetchall()]
    if language not in known:
        raise Invalid("language", f"must be one of {', '.join(known)}; simple is for all others")


def _build_conflict(used: tuple[Use, ...]) -> Conflict:
    count = used[0].count
    reason = f"{count} agent{'s' * (count > 1)} answer{'s' * (count == 1)} from the knowledge base"
    return Conflict(f"{reason}; force takes it out of {'them' if count > 1 else 'it'}", used)


def _build_use(rows: list[AgentRow]) -> Use:
    return Use("agents", len(rows), tuple(row.settings.name for row in rows[:NAMES]))


_PAGE = f"""{BASE}
 WHERE b.account_id = coalesce(%(account)s::text, b.account_id) AND {IS_IN_LIMIT}
   AND b.knowledge_base_id > %(after)s
 GROUP BY b.knowledge_base_id ORDER BY b.knowledge_base_id"""
