"""Models: `port` defines a call, its reply and failures; each provider's folder makes the call on its own
wire.

In the order of a call: `providers` (the table of them), `call_retries` (retries and the watch over a silent
stream), `continuation` (how a cut reply is continued). What providers share: `provider_calls` sends a call by
the provider's SDK over `aiohttp_transport`, and knows what a status means; `reply_builder` makes a reply of
the events of a stream, and knows what a broken one cost.
"""

from agentchat.orchestrator.models.port import (
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
