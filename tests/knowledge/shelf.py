"""A knowledge base under test: put documents in, ask for passages, look into its tables."""

from typing import Any

from agentchat.administration import admin_accounts, admin_knowledge
from agentchat.administration.admin_values import NewAccount, NewKnowledgeBase
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.importing.document_drafts import Draft
from agentchat.knowledge.importing.importer import Imported, Note, import_document
from agentchat.knowledge.search.passage_search import search
from agentchat.knowledge.search.passages import Passage
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.administrator import administrator


class Shelf:
    """`id` is the knowledge base's."""

    def __init__(self, pool: Pool, account: str, base_id: str) -> None:
        self.pool = pool
        self.account = account
        self.id = base_id
        self.note: Note = administrator(pool).note

    @classmethod
    async def create(cls, pool: Pool, *, language: str = "english") -> "Shelf":
        """Create an empty knowledge base of a new account."""
        admin = administrator(pool)
        account = await admin_accounts.create(admin, NewAccount(name="Acme", plan="Pro"))
        new = NewKnowledgeBase(account_id=account.id, name="Help", language=language)
        base = await admin_knowledge.create(admin, new)
        return cls(pool, account.id, base.id)

    async def put(self, name: str, text: str, embedder: Embedder | None = None, **more: Any) -> Imported:
        """Import a document."""
        draft = Draft(name=name, text=text, **more)
        return await import_document(
            self.pool, self.account, self.id, draft, note=self.note, embedder=embedder
        )

    async def ask(
        self, query: str, top_k: int = 5, embedder: Embedder | None = None, **more: Any
    ) -> list[Passage]:
        """Search."""
        return await search(self.pool, self.account, self.id, query, top_k, embedder, **more)

    async def find_texts(self, query: str, top_k: int = 5, embedder: Embedder | None = None) -> list[str]:
        """Return the texts of the passages found."""
        return [passage.text for passage in await self.ask(query, top_k, embedder)]

    async def read_rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        async with acquire_connection(self.pool, seconds=30) as conn:
            return await (await conn.execute(statement.encode(), values)).fetchall()

    async def list_chunk_ids(self) -> list[str]:
        """List the ids of the chunks in reading order."""
        rows = await self.read_rows(
            "SELECT chunk_id FROM chunks WHERE knowledge_base_id = %s ORDER BY document_id, position", self.id
        )
        return [chunk_id for (chunk_id,) in rows]
