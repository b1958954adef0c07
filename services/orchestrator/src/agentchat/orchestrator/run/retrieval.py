"""What an agent's knowledge base has to say to a run: found once, shown to the model in each of its calls."""

from collections.abc import Sequence

from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.values import Source
from agentchat.directory.agent_config import AgentConfig
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.errors import Disabled
from agentchat.knowledge.search.passages import INSTRUCTION, Passage, documents_of
from agentchat.knowledge.search.search import load_passages, search
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable, Pool


class Retriever:
    """The passages of one run. An agent without a knowledge base has none, and its prompt stays as it is."""

    def __init__(self, pool: Pool, agent: AgentConfig, embedder: Embedder | None = None) -> None:
        self._pool = pool
        self._agent = agent
        self._embedder = embedder
        self._passages: Sequence[Passage] | None = None

    async def find(self, question: str) -> tuple[Source, ...]:
        """Search for what the user asks. Where that cannot be done, the run goes on without.

        A disabled knowledge base is as an empty one; what a run had found before, it keeps.
        """
        retrieval = self._agent.retrieval
        if retrieval is None:
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
        """The passages of a run's recorded sources, as the model is shown them; "" without any."""
        retrieval = self._agent.retrieval
        if retrieval is None or not sources:
            return ""
        if self._passages is None:
            self._passages = await self.load_found_passages(retrieval.knowledge_base_id, sources)
        return documents_of(self._passages)

    def add_instruction(self, system_prompt: str) -> str:
        """The system prompt, told how to use documents if the agent retrieves."""
        if self._agent.retrieval is None:
            return system_prompt
        return f"{system_prompt}\n\n{INSTRUCTION}".lstrip()

    async def load_found_passages(
        self, knowledge_base_id: str, sources: Sequence[Source]
    ) -> Sequence[Passage]:
        """What an earlier attempt found; the snippets alone where Postgres does not answer."""
        try:
            return await load_passages(self._pool, self._agent.account_id, knowledge_base_id, sources)
        except (NotFound, DatabaseUnavailable):
            return [Passage(source, source.snippet) for source in sources]
