"""Anthropic's Messages API, streamed. Nothing else imports `anthropic`."""

from agentchat.net_guard import Guard
from agentchat.orchestrator.models.anthropic.client import AnthropicWire
from agentchat.orchestrator.models.call_retries import StreamingModel
from agentchat.orchestrator.models.port import Model
from agentchat.runtime.cpu_budget import CpuBudget

__all__ = ["open_model"]


def open_model(guard: Guard, loop: CpuBudget | None = None) -> Model:
    """A client of the provider. `guard` judges the agents' own addresses."""
    return StreamingModel(AnthropicWire(guard), loop=loop)
