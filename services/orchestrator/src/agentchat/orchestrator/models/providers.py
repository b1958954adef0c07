"""List the providers of models, and find the address and key of a call.

A provider's folder is imported when it is first called.

To add one: its folder, its line in `PROVIDERS`, its settings, and its line in `directory.model_parameters`.
"""

import asyncio
import pkgutil
from collections.abc import Mapping

import msgspec

from agentchat.directory.agent_config import AgentConfig, unseal_provider_key
from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.net_guard import Guard
from agentchat.orchestrator.models.model_interface import Credentials, ModelClient, ModelFailure
from agentchat.orchestrator.models.provider_model import create_loop_budget
from agentchat.orchestrator.settings import Settings

_UNKNOWN = "This service does not know the agent's model provider."
_UNREADABLE = "The agent's provider key cannot be read."
_NO_KEY = "The agent has no provider key."
_NO_KEY_FOR_URL = "The agent has its own base URL but no provider key of its own. Set one."


class Provider(msgspec.Struct, frozen=True):
    """The module and class of a provider's models, and the settings of its address and key."""

    model: str
    base_url: str
    api_key: str


PROVIDERS = {
    "anthropic": Provider(
        "agentchat.orchestrator.models.anthropic.client:AnthropicModel",
        "anthropic_base_url",
        "anthropic_api_key",
    ),
    "openai": Provider(
        "agentchat.orchestrator.models.openai.client:OpenAIModel", "openai_base_url", "openai_api_key"
    ),
}


class Defaults(msgspec.Struct, frozen=True):
    """The deployment's address and key of a provider. Without a key, agents need their own."""

    base_url: str
    api_key: str | None

    def __repr__(self) -> str:
        return f"Defaults(base_url={self.base_url!r})"


def read_defaults(settings: Settings) -> dict[str, Defaults]:
    """Read the deployment's address and key of each provider from the settings."""
    return {
        name: Defaults(getattr(settings, provider.base_url), getattr(settings, provider.api_key))
        for name, provider in PROVIDERS.items()
    }


class Models:
    """The models of all providers. `guard` checks the base URLs of agents, `sealer` opens their keys."""

    def __init__(self, defaults: Mapping[str, Defaults], guard: Guard, sealer: Sealer) -> None:
        self._defaults = defaults
        self._guard = guard
        self._sealer = sealer
        self._loop = create_loop_budget()
        self._open: dict[str, ModelClient] = {}

    async def get_model(self, provider: str) -> ModelClient:
        """Return a provider's models. Raises ModelFailure for an unknown provider."""
        self._get_defaults(provider)
        if provider not in self._open:
            # An SDK takes a second to import, too long for the loop that renews leases.
            model = await asyncio.to_thread(pkgutil.resolve_name, PROVIDERS[provider].model)
            if provider not in self._open:  # another call may have been faster
                self._open[provider] = model(self._guard, self._loop)
        return self._open[provider]

    def resolve_credentials(self, agent: AgentConfig) -> Credentials:
        """Return the agent's own base URL and key, or else the deployment's.

        The deployment's key is sent to the deployment's base URL only.

        Raises:
            ModelFailure: There is no readable key.
        """
        defaults = self._get_defaults(agent.provider)
        try:
            key = unseal_provider_key(self._sealer, agent)
        except SealBroken as error:
            raise ModelFailure("provider_error", _UNREADABLE, kind="key_unreadable") from error
        if agent.base_url is None:
            key = key or defaults.api_key
        if key is None:
            why = _NO_KEY if agent.base_url is None else _NO_KEY_FOR_URL
            raise ModelFailure("provider_error", why, kind="no_key")
        return Credentials(agent.base_url or defaults.base_url, key, guarded=agent.base_url is not None)

    def _get_defaults(self, provider: str) -> Defaults:
        """Return the deployment's address and key. Raises ModelFailure for an unknown provider."""
        try:
            return self._defaults[provider]
        except KeyError:
            raise ModelFailure("provider_error", _UNKNOWN, kind="unknown_provider") from None

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        for model in self._open.values():
            await model.aclose()
