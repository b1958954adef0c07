"""Anthropic's Messages API, streamed. Nothing else imports `anthropic`."""

from net_guard import Guard
from orchestrator.models.anthropic.client import AnthropicWire
from orchestrator.models.call_retries import StreamingModel
from orchestrator.models.port import Model
from runtime.cpu_budget import CpuBudget

__all__ = ["open_model"]


def open_model(guard: Guard, loop: CpuBudget | None = None) -> Model:
    """A client of the provider. `guard` judges the agents' own addresses."""
    return StreamingModel(AnthropicWire(guard), loop=loop)
