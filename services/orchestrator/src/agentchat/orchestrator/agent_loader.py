"""Load the agent of a run: its configuration at a version, and the address and key of its model calls."""

from typing import Any

from agentchat.contracts.values import AgentFacts
from agentchat.directory.agent_config import AgentConfig, load_agent, unseal_provider_key
from agentchat.directory.errors import SealBroken
from agentchat.directory.secrets import Sealer
from agentchat.orchestrator.models import Credentials, ModelFailure, Models
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.postgres import Pool

_MAX_KNOWN = 256
_UNREADABLE = "The agent's provider key cannot be read."
_NONE = "The agent has no provider key."
_NONE_FOR_URL = "The agent has its own base URL but no provider key of its own. Set one."


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

    def unseal_key(self, agent: AgentConfig) -> str | None:
        """Return the agent's provider key, or None if it has none of its own. Raises SealBroken."""
        return unseal_provider_key(self._sealer, agent)

    def hash_user(self, account_id: str, user_id: str | None) -> str | None:
        """Return the pseudonym by which a model provider knows an end user; None without one."""
        return None if user_id is None else self._sealer.hash_user(account_id, user_id)


def resolve_credentials(agents: Agents, models: Models, agent: AgentConfig) -> Credentials:
    """Return the agent's own base URL and key, or else the deployment's.

    The deployment's key is sent to the deployment's base URL only.

    Raises:
        ModelFailure: There is no readable key.
    """
    defaults = models.get_defaults(agent.provider)
    try:
        key = agents.unseal_key(agent)
    except SealBroken as error:
        raise ModelFailure("provider_error", _UNREADABLE, kind="key_unreadable") from error
    if agent.base_url is None:
        key = key or defaults.api_key
    if key is None:
        why = _NONE if agent.base_url is None else _NONE_FOR_URL
        raise ModelFailure("provider_error", why, kind="no_key")
    return Credentials(agent.base_url or defaults.base_url, key, guarded=agent.base_url is not None)


def build_agent_facts(agent: AgentConfig) -> AgentFacts:
    """Build the facts of an agent that a run's events record."""
    return AgentFacts(
        agent_version=agent.version, retrieves=agent.retrieval is not None, **_copy_shared_fields(agent)
    )


def _copy_shared_fields(agent: AgentConfig) -> dict[str, Any]:
    return {name: getattr(agent, name) for name in AgentFacts.__struct_fields__ if hasattr(agent, name)}
