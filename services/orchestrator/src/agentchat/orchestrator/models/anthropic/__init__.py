"""Call Anthropic's Messages API, streamed. Nothing else imports `anthropic`."""

from agentchat.net_guard import Guard
from agentchat.orchestrator.models.anthropic.client import AnthropicApi
from agentchat.orchestrator.models.port import ModelClient
from agentchat.orchestrator.models.retrying_model import RetryingModel
from agentchat.runtime.cpu_budget import CpuBudget

__all__ = ["open_model"]


def open_model(guard: Guard, loop: CpuBudget | None = None) -> ModelClient:
    """Open a client of the provider. `guard` checks the agents' own base URLs."""
    return RetryingModel(AnthropicApi(guard), loop=loop)
