"""A knowledge base under test: put documents in, ask for passages, look into its tables."""

from typing import Any

from directory.administration import create_account
from knowledge import administration
from knowledge.audit import Audit
from knowledge.drafts import Draft
from knowledge.embedding import Embedder
from knowledge.importing import Imported, import_document
from knowledge.passages import Passage
from knowledge.search import search
from runtime.postgres import Pool, connection


class Shelf:
    """`id` is the knowledge base's."""

    def __init__(self, pool: Pool, account: str, base_id: str, audit: Audit) -> None:
        self.pool = pool
        self.account = account
        self.id = base_id
        self.audit = audit

    @classmethod
    async def create(cls, pool: Pool, audit: Audit, *, language: str = "english") -> "Shelf":
        """An empty knowledge base of a new account."""
        async with connection(pool) as conn:
            account = await create_account(conn, name="Acme", plan="Pro", actor=audit.actor)
            base = await administration.create_knowledge_base(
                conn, account.account_id, name="Help", audit=audit, language=language
            )
        return cls(pool, account.account_id, base.knowledge_base_id, audit)

    async def put(self, name: str, text: str, embedder: Embedder | None = None, **more: Any) -> Imported:
        """Import a document."""
        draft = Draft(name=name, text=text, **more)
        return await import_document(
            self.pool, self.account, self.id, draft, audit=self.audit, embedder=embedder
        )

    async def ask(self, query: str, top_k: int = 5, embedder: Embedder | None = None) -> list[Passage]:
        """Search."""
        return await search(self.pool, self.account, self.id, query, top_k, embedder)

    async def texts(self, query: str, top_k: int = 5, embedder: Embedder | None = None) -> list[str]:
        """The texts of what is found."""
        return [passage.text for passage in await self.ask(query, top_k, embedder)]

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer of the database."""
        async with connection(self.pool, seconds=30) as conn:
            return await (await conn.execute(statement.encode(), values)).fetchall()

    async def chunk_ids(self) -> list[str]:
        """In reading order."""
        rows = await self.rows(
            "SELECT chunk_id FROM chunks WHERE knowledge_base_id = %s ORDER BY document_id, position", self.id
        )
        return [chunk_id for (chunk_id,) in rows]
