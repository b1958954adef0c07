"""Models behind a port: `port` says what a call is, each provider's folder makes it on its own wire.

In the order of a call: `providers` (the table of them), `port`, `continuation` (going on with a cut reply),
`streaming` (retries and the watch over a silent stream), with what the providers share: `provider_http`,
`sse`, `reply`, `tool_input`, `http_failures`; then `prefix`, what the log keeps of the prompt.
"""

from orchestrator.models.port import (
    Credentials,
    Meter,
    Model,
    ModelCall,
    ModelFailure,
    OnText,
    Reply,
)
from orchestrator.models.providers import PROVIDERS, Models, defaults_of

__all__ = [
    "PROVIDERS",
    "Credentials",
    "Meter",
    "Model",
    "ModelCall",
    "ModelFailure",
    "Models",
    "OnText",
    "Reply",
    "defaults_of",
]
