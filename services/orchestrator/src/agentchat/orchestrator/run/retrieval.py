"""Search an agent's knowledge base for a run: once, and shown to the model in each of its calls."""

from collections.abc import Sequence

from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.values import Source
from agentchat.directory.agent_config import AgentConfig
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.errors import Disabled
from agentchat.knowledge.search.passage_search import load_passages, search
from agentchat.knowledge.search.passages import INSTRUCTION, Passage, render_documents
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable, Pool


class Retriever:
    """The retrieved passages of one run. None for an agent without a knowledge base."""

    def __init__(self, pool: Pool, agent: AgentConfig, embedder: Embedder | None = None) -> None:
        self._pool = pool
        self._agent = agent
        self._embedder = embedder
        self._passages: Sequence[Passage] | None = None

    async def find(self, question: str) -> tuple[Source, ...]:
        """Search for the user's question. If that fails, the run continues without sources.

        A disabled knowledge base counts as empty; a run keeps what it found before. A message with only a
        file asks for nothing.
        """
        retrieval = self._agent.retrieval
        if retrieval is None or not question.strip():
            return ()
        try:
            self._passages = await search(
                self._pool,
                self._agent.account_id,
                retrieval.knowledge_base_id,
                question,
                retrieval.top_k,
                self._embedder,
            )
        except Disabled:
            self._passages = ()
        except (NotFound, DatabaseUnavailable) as error:
            logs.get_logger("retrieval").warning("retrieval_failed", reason=str(error))
            self._passages = ()
        return tuple(passage.source for passage in self._passages)

    async def load_documents(self, sources: Sequence[Source] | None) -> str:
        """Return the passages of a run's recorded sources as the model sees them; "" without any."""
        retrieval = self._agent.retrieval
        if retrieval is None or not sources:
            return ""
        if self._passages is None:
            self._passages = await self.load_found_passages(retrieval.knowledge_base_id, sources)
        return render_documents(self._passages)

    def add_instruction(self, system_prompt: str) -> str:
        """Return the system prompt with the instruction on documents if the agent retrieves."""
        if self._agent.retrieval is None:
            return system_prompt
        return f"{system_prompt}\n\n{INSTRUCTION}".lstrip()

    async def load_found_passages(
        self, knowledge_base_id: str, sources: Sequence[Source]
    ) -> Sequence[Passage]:
        """Load what an earlier attempt found; only the snippets if Postgres does not answer."""
        try:
            return await load_passages(self._pool, self._agent.account_id, knowledge_base_id, sources)
        except (NotFound, DatabaseUnavailable):
            return [Passage(source, source.snippet) for source in sources]
