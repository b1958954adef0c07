"""OpenAI's Chat Completions, streamed, in the dialects of the servers that speak it.

Nothing else imports `openai`, which takes over a second. `dialects` is the table of differences; `request`
and `messages` write a call, `wire`, `tool_calls` and `reply` read one, `failures` words what went wrong.
"""

from net_guard import Guard
from orchestrator.models.openai.client import OpenAIWire
from orchestrator.models.port import Model
from orchestrator.models.streaming import StreamingModel

__all__ = ["open_model"]

IDLE_SECONDS = 180.0
"""Longer than other providers': this API's own models think without any sign of life."""


def open_model(guard: Guard, *, idle_seconds: float = IDLE_SECONDS) -> Model:
    """A client of the provider. `guard` judges the agents' own addresses; `idle_seconds` without a sign of
    life end a stream.
    """
    return StreamingModel(OpenAIWire(guard), idle_seconds=idle_seconds)
