"""The model: Anthropic's Messages API, streamed, with failures told apart and retries of our own.

The only package that imports `anthropic`; that takes over a second, so import it where a worker starts.
"""

from orchestrator.model.failures import ModelFailure
from orchestrator.model.provider import Credentials, Meter, OnText, Provider
from orchestrator.model.reply import Reply
from orchestrator.model.request import ModelCall
from orchestrator.model.schema import output_format

__all__ = [
    "Credentials",
    "Meter",
    "ModelCall",
    "ModelFailure",
    "OnText",
    "Provider",
    "Reply",
    "output_format",
]
