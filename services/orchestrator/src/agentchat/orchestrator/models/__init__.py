"""Call language models: `port` defines calls, replies and failures; each provider's folder implements them.

In the order of a call: `providers` (the table), `retrying_model` (retries, time-outs), `continue_reply`
(continuing a cut reply). Shared by providers: `provider_api` sends a call with the provider's SDK over
`aiohttp_transport` and classifies statuses; `reply_builder` builds a reply from a stream and estimates the
cost of a broken one.
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
