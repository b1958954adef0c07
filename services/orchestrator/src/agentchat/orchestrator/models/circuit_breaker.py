"""Remember which models fail, so that runs skip a model that failed several times just now."""

import msgspec

from agentchat.directory.agent_config import AgentConfig
from agentchat.runtime.bounded_map import BoundedMap

FAILURES = 3
SECONDS = 30.0
"""A model that failed FAILURES times within this time is skipped for the same time."""

_MAX_MODELS = 1000


class ModelKey(msgspec.Struct, frozen=True):
    """An account's model: a limit of one account's key says nothing about others."""

    account_id: str
    provider: str
    model: str
    base_url: str | None


class FailingModels:
    """The last failures of models of agents with fall-backs, in this process."""

    def __init__(self) -> None:
        self._failures: BoundedMap[ModelKey, tuple[float, ...]] = BoundedMap(_MAX_MODELS)

    def record_failure(self, agent: AgentConfig, now: float) -> None:
        """Record that the agent's model has failed at `now`, in seconds of a monotonic clock."""
        key = _get_key(agent)
        self._failures.put(key, (*(self._failures.get(key) or ()), now)[-FAILURES:])

    def is_failing(self, agent: AgentConfig, now: float) -> bool:
        """Return True if the agent's model is to be skipped."""
        times = self._failures.get(_get_key(agent)) or ()
        if len(times) < FAILURES or times[-1] - times[0] > SECONDS:
            return False
        return now - times[-1] < SECONDS


def _get_key(agent: AgentConfig) -> ModelKey:
    return ModelKey(agent.account_id, agent.provider, agent.model, agent.base_url)
