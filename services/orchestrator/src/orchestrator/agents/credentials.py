"""Where an agent's model calls go, and with which key."""

from directory.agents import AgentConfig
from directory.errors import SealBroken
from orchestrator.models import Credentials, ModelFailure
from orchestrator.orchestrator_services import Parts

_UNREADABLE = "The agent's provider key cannot be read."
_NONE = "The agent has no provider key."
_NONE_FOR_URL = "The agent has a base URL of its own, and no provider key of its own to go there with."


def credentials_of(parts: Parts, agent: AgentConfig) -> Credentials:
    """The agent's own address and key, or else the deployment's, whose key goes to its own address alone.

    Raises ModelFailure where there is none that can be read.
    """
    defaults = parts.models.defaults(agent.provider)
    try:
        key = parts.agents.key_of(agent)
    except SealBroken as error:
        raise ModelFailure("provider_error", _UNREADABLE, kind="key_unreadable") from error
    if agent.base_url is None:
        key = key or defaults.api_key
    if key is None:
        why = _NONE if agent.base_url is None else _NONE_FOR_URL
        raise ModelFailure("provider_error", why, kind="no_key")
    return Credentials(agent.base_url or defaults.base_url, key, guarded=agent.base_url is not None)
