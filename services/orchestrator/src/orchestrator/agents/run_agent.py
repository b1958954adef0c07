"""The agent of a run: its configuration at a version, and the provider key of that version."""

from typing import Any

from contracts.events import AgentFacts
from directory.agents import AgentConfig, load_agent, unsealed_key
from directory.secrets import Sealer
from runtime.bounded import BoundedMap
from runtime.postgres import Pool

_MAX_KNOWN = 256


class Agents:
    """Reads the directory. Every call raises DatabaseUnavailable where Postgres does not answer."""

    def __init__(self, pool: Pool, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer
        self._known: BoundedMap[tuple[str, str], AgentConfig] = BoundedMap(_MAX_KNOWN)

    async def current(self, account_id: str, agent_id: str) -> AgentConfig | None:
        """The version that a new run takes; None where the account has no such agent."""
        agent = await load_agent(self._pool, account_id, agent_id)
        if agent is not None:
            self._known.put((account_id, agent_id), agent)
        return agent

    def known(self, account_id: str, agent_id: str) -> AgentConfig | None:
        """What `current` returned last, for a statement that checks that it still holds."""
        return self._known.get((account_id, agent_id))

    async def at_version(self, account_id: str, agent_id: str, version: int) -> AgentConfig | None:
        """The version that a run began with."""
        return await load_agent(self._pool, account_id, agent_id, version)

    def key_of(self, agent: AgentConfig) -> str | None:
        """The agent's provider key; None where it has none of its own. Raises SealBroken."""
        return unsealed_key(self._sealer, agent)


def facts_of(agent: AgentConfig) -> AgentFacts:
    """What a new run records of its agent."""
    return AgentFacts(
        agent_version=agent.version, retrieves=agent.retrieval is not None, **_same_by_name(agent)
    )


def _same_by_name(agent: AgentConfig) -> dict[str, Any]:
    return {name: getattr(agent, name) for name in AgentFacts.__struct_fields__ if hasattr(agent, name)}
