"""What opens the model provider's door for an agent."""

from directory.agents import AgentConfig
from directory.errors import SealBroken
from orchestrator.model import Credentials, ModelFailure
from orchestrator.parts import Parts


async def credentials_of(parts: Parts, agent: AgentConfig) -> Credentials:
    """The agent's own key, or else the deployment's.

    Raises ModelFailure where there is none that can be read, DatabaseUnavailable.
    """
    try:
        key = await parts.agents.key_of(agent)
    except SealBroken as error:
        raise ModelFailure("provider_error", "The agent's provider key cannot be read.") from error
    if key is None:
        raise ModelFailure("provider_error", "The agent has no provider key.")
    return Credentials(parts.base_url, key)
