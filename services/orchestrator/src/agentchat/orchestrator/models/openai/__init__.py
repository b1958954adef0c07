"""Call OpenAI's Chat Completions API, streamed, in the dialects of the servers that speak it.

Nothing else imports `openai`, which takes over a second. `dialects` is the table of differences; `client` and
`request_messages` write a call, `completion_stream` reads a reply, `completion_errors` translates errors.
"""

from agentchat.net_guard import Guard
from agentchat.orchestrator.models.openai.client import OpenAIApi
from agentchat.orchestrator.models.port import ModelClient
from agentchat.orchestrator.models.retrying_model import QUIET_SECONDS, RetryingModel
from agentchat.runtime.cpu_budget import CpuBudget

__all__ = ["open_model"]


def open_model(guard: Guard, loop: CpuBudget | None = None) -> ModelClient:
    """Open a client of the provider. `guard` checks the agents' own base URLs.

    Models of this API think without sending pings, hence the longer idle time.
    """
    return RetryingModel(OpenAIApi(guard), loop=loop, idle_seconds=QUIET_SECONDS)
