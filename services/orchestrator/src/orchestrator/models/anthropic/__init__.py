"""Anthropic's Messages API, streamed. Nothing else imports `anthropic`, which takes half a second."""

from net_guard import Guard
from orchestrator.models.anthropic import _sdk  # noqa: F401 - before all that imports anthropic
from orchestrator.models.anthropic.client import AnthropicWire
from orchestrator.models.call_retries import StreamingModel
from orchestrator.models.port import Model
from runtime.cpu_budget import CpuBudget

__all__ = ["open_model"]


def open_model(guard: Guard, loop: CpuBudget | None = None) -> Model:
    """A client of the provider. `guard` judges the agents' own addresses."""
    return StreamingModel(AnthropicWire(guard), loop=loop)
