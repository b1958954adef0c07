"""Where an agent's model calls go, and with which key."""

from directory.agents import AgentConfig
from directory.errors import SealBroken
from orchestrator.models import Credentials, ModelFailure
from orchestrator.parts import Parts


async def credentials_of(parts: Parts, agent: AgentConfig) -> Credentials:
    """The agent's own key, or else the deployment's.

    Raises ModelFailure where there is none that can be read, DatabaseUnavailable.
    """
    defaults = parts.models.defaults(agent.provider)
    try:
        key = await parts.agents.key_of(agent)
    except SealBroken as error:
        raise ModelFailure("provider_error", "The agent's provider key cannot be read.") from error
    key = key or defaults.api_key
    if key is None:
        raise ModelFailure("provider_error", "The agent has no provider key.")
    return Credentials(defaults.base_url, key)
