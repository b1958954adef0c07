"""The agent of a run: its configuration at a version, and the provider key of that version."""

from conversations.turn import AgentFacts
from directory.agents import AgentConfig, load_agent, provider_key
from directory.secrets import Sealer
from runtime.postgres import Pool


class Agents:
    """Reads the directory. Every call raises DatabaseUnavailable where Postgres does not answer."""

    def __init__(self, pool: Pool, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer

    async def current(self, account_id: str, agent_id: str) -> AgentConfig | None:
        """The version that a new run takes; None where the account has no such agent."""
        return await load_agent(self._pool, account_id, agent_id)

    async def at_version(self, account_id: str, agent_id: str, version: int) -> AgentConfig | None:
        """The version that a run began with."""
        return await load_agent(self._pool, account_id, agent_id, version)

    async def key_of(self, agent: AgentConfig) -> str | None:
        """The agent's provider key; None where it has none of its own. Raises SealBroken.

        Read each time: an id that was deleted may come again, with the same version and another's key.
        """
        return await provider_key(self._pool, self._sealer, agent.account_id, agent.agent_id, agent.version)


def facts_of(agent: AgentConfig) -> AgentFacts:
    """What a new run records of its agent."""
    return AgentFacts(
        agent_version=agent.version,
        model=agent.model,
        max_tool_rounds=agent.max_tool_rounds,
        retrieves=agent.retrieval is not None,
        on_interruption=agent.on_interruption,
    )
