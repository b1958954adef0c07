"""Call language models: `model_interface` has calls, replies and failures; each provider has a folder.

In the order of a call: `providers` (the table), then what providers share: `provider_model` sends a call with
the provider's SDK over `aiohttp_client`, and retries it; `streamed_reply` reads the reply;
`continue_reply` continues one that broke off.
"""

from agentchat.orchestrator.models.model_interface import (
    Credentials,
    Meter,
    ModelCall,
    ModelClient,
    ModelFailure,
    ModelReply,
    OnText,
)
from agentchat.orchestrator.models.providers import PROVIDERS, Models, read_defaults

__all__ = [
    "PROVIDERS",
    "Credentials",
    "Meter",
    "ModelCall",
    "ModelClient",
    "ModelFailure",
    "ModelReply",
    "Models",
    "OnText",
    "read_defaults",
]
