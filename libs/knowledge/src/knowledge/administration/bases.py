"""Knowledge bases."""

from datetime import datetime
from typing import Any

import msgspec
import psycopg

from contracts.ids import is_uuid, new_id
from contracts.text import is_line
from knowledge.administration.documents import delete_documents
from knowledge.audit import Audit
from knowledge.errors import Conflict, Invalid, NotFound
from runtime.postgres import Connection

MOST_NAME = 200


class KnowledgeBase(msgspec.Struct, frozen=True, kw_only=True):
    """`language` is the Postgres text search configuration that its words are stemmed by."""

    knowledge_base_id: str
    account_id: str
    name: str
    language: str
    disabled: bool = False
    created_at: datetime
    documents: int = 0
    chunks: int = 0


async def create_knowledge_base(
    conn: Connection,
    account_id: str,
    *,
    name: str,
    audit: Audit,
    language: str = "english",
    knowledge_base_id: str | None = None,
) -> KnowledgeBase:
    """A new, empty one. `language` is one of `languages`; "simple", which stems nothing, is for all others.

    Raises Invalid, NotFound for the account, Conflict where the id is taken.
    """
    name = _checked_name(name)
    if knowledge_base_id is not None and not is_uuid(knowledge_base_id):
        raise Invalid("knowledge_base_id", "must be a UUID")
    known = await languages(conn)
    if language not in known:
        raise Invalid("language", f"must be one of {', '.join(known)}; simple is for all others")
    base_id = knowledge_base_id or new_id()
    async with conn.transaction():
        try:
            cursor = await conn.execute(
                "INSERT INTO knowledge_bases (knowledge_base_id, account_id, name, language) "
                "VALUES (%s, %s, %s, %s) RETURNING created_at",
                [base_id, account_id, name, language],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("account", account_id) from None
        except psycopg.errors.UniqueViolation:
            raise Conflict("knowledge base", base_id) from None
        row = await cursor.fetchone()
        assert row is not None
        created = KnowledgeBase(
            knowledge_base_id=base_id, account_id=account_id, name=name, language=language, created_at=row[0]
        )
        await audit.note(conn, "create", "knowledge base", base_id, after=created)
    return created


async def languages(conn: Connection) -> list[str]:
    """The text search configurations of this Postgres, `simple` among them."""
    cursor = await conn.execute(
        "SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace ORDER BY cfgname"
    )
    return [name for (name,) in await cursor.fetchall()]


async def list_knowledge_bases(conn: Connection, account_id: str) -> list[KnowledgeBase]:
    """All of the account's, oldest first."""
    return await _bases(conn, account_id, None)


async def knowledge_bases_after(
    conn: Connection, account_id: str | None, *, after: str = "", limit: int = 100
) -> list[KnowledgeBase]:
    """Those whose ids come after `after`, of one account or of all, in the order of their ids."""
    cursor = await conn.execute(_PAGE, {"account": account_id, "after": after, "limit": limit})
    return [_base(row) for row in await cursor.fetchall()]


async def account_of(conn: Connection, knowledge_base_id: str) -> str | None:
    """Whose knowledge base it is; None where there is none."""
    cursor = await conn.execute(
        "SELECT account_id FROM knowledge_bases WHERE knowledge_base_id = %s", [knowledge_base_id]
    )
    row = await cursor.fetchone()
    return None if row is None else row[0]


async def keep_knowledge_base(conn: Connection, account_id: str, knowledge_base_id: str) -> bool:
    """Whether the account has it; if so it cannot be deleted until the transaction ends."""
    cursor = await conn.execute(
        "SELECT FROM knowledge_bases WHERE account_id = %s AND knowledge_base_id = %s FOR KEY SHARE",
        [account_id, knowledge_base_id],
    )
    return await cursor.fetchone() is not None


async def find_knowledge_base(
    conn: Connection, account_id: str, knowledge_base_id: str
) -> KnowledgeBase | None:
    """The account's knowledge base; None where there is none."""
    found = await _bases(conn, account_id, knowledge_base_id)
    return found[0] if found else None


async def rename_knowledge_base(
    conn: Connection, account_id: str, knowledge_base_id: str, *, name: str, audit: Audit
) -> KnowledgeBase:
    """Raises Invalid, NotFound."""
    name = _checked_name(name)
    async with conn.transaction():
        before = await lock_knowledge_base(conn, account_id, knowledge_base_id)
        after = msgspec.structs.replace(before, name=name)
        await conn.execute(
            "UPDATE knowledge_bases SET name = %s WHERE knowledge_base_id = %s", [name, knowledge_base_id]
        )
        await audit.note(conn, "change", "knowledge base", knowledge_base_id, before=before, after=after)
    return after


async def set_knowledge_base_disabled(
    conn: Connection, account_id: str, knowledge_base_id: str, disabled: bool, *, audit: Audit
) -> KnowledgeBase:
    """Let agents find nothing there, or find again; documents can be changed meanwhile. Raises NotFound."""
    async with conn.transaction():
        before = await lock_knowledge_base(conn, account_id, knowledge_base_id)
        if before.disabled == disabled:
            return before
        await conn.execute(
            "UPDATE knowledge_bases SET disabled_at = CASE WHEN %s THEN now() END "
            "WHERE knowledge_base_id = %s",
            [disabled, knowledge_base_id],
        )
        after = msgspec.structs.replace(before, disabled=disabled)
        action = "disable" if disabled else "enable"
        await audit.note(conn, action, "knowledge base", knowledge_base_id, before=before, after=after)
    return after


async def delete_knowledge_base(
    conn: Connection, account_id: str, knowledge_base_id: str, *, audit: Audit
) -> None:
    """With all its documents, in one transaction; agents that look there find nothing from then on.

    An import that is on its way fails with NotFound. Raises NotFound.
    """
    async with conn.transaction():
        before = await lock_knowledge_base(conn, account_id, knowledge_base_id)
        await delete_documents(conn, knowledge_base_id)
        await conn.execute("DELETE FROM knowledge_bases WHERE knowledge_base_id = %s", [knowledge_base_id])
        await audit.note(conn, "delete", "knowledge base", knowledge_base_id, before=before)


async def _bases(conn: Connection, account_id: str, knowledge_base_id: str | None) -> list[KnowledgeBase]:
    cursor = await conn.execute(_BASES, {"account": account_id, "base": knowledge_base_id})
    return [_base(row) for row in await cursor.fetchall()]


def _base(row: tuple[Any, ...]) -> KnowledgeBase:
    return KnowledgeBase(**dict(zip(KnowledgeBase.__struct_fields__, row, strict=True)))


async def lock_knowledge_base(conn: Connection, account_id: str, knowledge_base_id: str) -> KnowledgeBase:
    """The knowledge base, its row held until the transaction ends: no document is added meanwhile.

    Raises NotFound.
    """
    await conn.execute(
        "SELECT FROM knowledge_bases WHERE account_id = %s AND knowledge_base_id = %s FOR UPDATE",
        [account_id, knowledge_base_id],
    )
    found = await find_knowledge_base(conn, account_id, knowledge_base_id)
    if found is None:
        raise NotFound("knowledge base", knowledge_base_id)
    return found


def _checked_name(name: str) -> str:
    """The name on one line. Raises Invalid."""
    name = " ".join(name.split())
    if not 1 <= len(name) <= MOST_NAME or not is_line(name):
        raise Invalid(
            "name",
            f"must have 1 to {MOST_NAME} characters, control characters and lone surrogates not among them",
        )
    return name


_BASE = """
SELECT b.knowledge_base_id, b.account_id, b.name, b.language, b.disabled_at IS NOT NULL, b.created_at,
       count(d.document_id), coalesce(sum(d.chunks), 0)
  FROM knowledge_bases b LEFT JOIN documents d USING (knowledge_base_id)"""

_BASES = f"""{_BASE}
 WHERE b.account_id = %(account)s AND b.knowledge_base_id = coalesce(%(base)s, b.knowledge_base_id)
 GROUP BY b.knowledge_base_id ORDER BY b.created_at, b.knowledge_base_id
"""

_PAGE = f"""{_BASE}
 WHERE b.account_id = coalesce(%(account)s::text, b.account_id) AND b.knowledge_base_id > %(after)s
 GROUP BY b.knowledge_base_id ORDER BY b.knowledge_base_id LIMIT %(limit)s
"""
