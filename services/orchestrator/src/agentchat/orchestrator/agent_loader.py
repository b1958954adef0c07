"""Load the agent of a run: its configuration at a version."""

from typing import Any

from agentchat.contracts.values import AgentFacts
from agentchat.directory.agent_config import AgentConfig, load_agent
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.postgres import Pool

_MAX_KNOWN = 256


class Agents:
    """Agent configurations from the directory. Methods that load raise DatabaseUnavailable."""

    def __init__(self, pool: Pool, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer
        self._known: BoundedMap[tuple[str, str], AgentConfig] = BoundedMap(_MAX_KNOWN)

    async def load_current(self, account_id: str, agent_id: str, conversation_id: str) -> AgentConfig | None:
        """Load the version that a new run of the conversation uses, or None if there is no such agent."""
        agent = await load_agent(self._pool, account_id, agent_id, conversation_id=conversation_id)
        if agent is not None and agent.canary:
            self._known.pop((account_id, agent_id))
        elif agent is not None:
            self._known.put((account_id, agent_id), agent)
        return agent

    def get_cached(self, account_id: str, agent_id: str) -> AgentConfig | None:
        """Return what `load_current` returned last, for a statement that verifies it.

        None for an agent whose traffic is split between versions.
        """
        return self._known.get((account_id, agent_id))

    async def load_version(self, account_id: str, agent_id: str, version: int) -> AgentConfig | None:
        """Load an agent at a version, or None if there is none."""
        return await load_agent(self._pool, account_id, agent_id, version)

    def hash_user(self, account_id: str, user_id: str | None) -> str | None:
        """Return the pseudonym by which a model provider knows an end user; None without one."""
        return None if user_id is None else self._sealer.hash_user(account_id, user_id)


def build_agent_facts(agent: AgentConfig) -> AgentFacts:
    """Build the facts of an agent that a run's events record."""
    return AgentFacts(
        agent_version=agent.version, retrieves=agent.retrieval is not None, **_copy_shared_fields(agent)
    )


def _copy_shared_fields(agent: AgentConfig) -> dict[str, Any]:
    return {name: getattr(agent, name) for name in AgentFacts.__struct_fields__ if hasattr(agent, name)}
