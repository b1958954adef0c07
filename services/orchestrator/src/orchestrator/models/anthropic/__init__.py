"""Anthropic's Messages API, streamed. Nothing else imports `anthropic`, which takes over a second."""

from net_guard import Guard
from orchestrator.models.anthropic.client import AnthropicWire
from orchestrator.models.port import Model
from orchestrator.models.streaming import IDLE_SECONDS, StreamingModel

__all__ = ["open_model"]


def open_model(guard: Guard, *, idle_seconds: float = IDLE_SECONDS) -> Model:
    """A client of the provider. `guard` judges the agents' own addresses; `idle_seconds` without a sign of
    life end a stream.
    """
    return StreamingModel(AnthropicWire(guard), idle_seconds=idle_seconds)
