"""List the providers of models. A provider's folder is imported when it is first called.

To add one: its folder, its line in `PROVIDERS`, its settings, and its line in `directory.model_parameters`.
"""

import asyncio
import importlib
from collections.abc import Mapping

import msgspec

from agentchat.net_guard import Guard
from agentchat.orchestrator.models.port import ModelClient, ModelFailure
from agentchat.orchestrator.models.retrying_model import create_loop_budget
from agentchat.orchestrator.settings import Settings

_UNKNOWN = "This service does not know the agent's model provider."


class ProviderModule(msgspec.Struct, frozen=True):
    """A provider's module with `open_model(guard, loop)`, and the settings of its address and key."""

    module: str
    base_url: str
    api_key: str


PROVIDERS = {
    "anthropic": ProviderModule(
        "agentchat.orchestrator.models.anthropic", "anthropic_base_url", "anthropic_api_key"
    ),
    "openai": ProviderModule("agentchat.orchestrator.models.openai", "openai_base_url", "openai_api_key"),
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
    """The models of all providers. `guard` checks the base URLs of agents."""

    def __init__(self, defaults: Mapping[str, Defaults], guard: Guard) -> None:
        self._defaults = defaults
        self._guard = guard
        self._loop = create_loop_budget()
        self._open: dict[str, ModelClient] = {}

    def get_defaults(self, provider: str) -> Defaults:
        """Return the deployment's address and key. Raises ModelFailure for an unknown provider."""
        try:
            return self._defaults[provider]
        except KeyError:
            raise ModelFailure("provider_error", _UNKNOWN, kind="unknown_provider") from None

    async def get_model(self, provider: str) -> ModelClient:
        """Return a provider's models. Raises ModelFailure for an unknown provider."""
        self.get_defaults(provider)
        if provider not in self._open:
            # An SDK takes a second to import, too long for the loop that renews leases.
            module = await asyncio.to_thread(importlib.import_module, PROVIDERS[provider].module)
            if provider not in self._open:  # another call may have been faster
                self._open[provider] = module.open_model(self._guard, self._loop)
        return self._open[provider]

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        for model in self._open.values():
            await model.aclose()
