"""Continue a run with another model of its agent if the present one fails, and record the change.

The change is an event, so a worker that takes the run over goes on with the same model. The next model gets
the history in neutral blocks, and continues text that readers have as after a takeover.
"""

import time
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Run
from agentchat.directory.agent_config import AgentConfig, FallbackReason, use_fallback
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.models.circuit_breaker import FailingModels
from agentchat.orchestrator.output.output_spec import OutputSpec
from agentchat.orchestrator.run.interrupted_text import SentOutput
from agentchat.orchestrator.run.model_reply import ReplyStreamer
from agentchat.orchestrator.run.perform_step import Performer
from agentchat.runtime import logs, metrics

LAST_CHANGE_SECONDS = 300.0
"""How long after its message a run's model may change; the last one then has as much time to answer."""

_CODES: dict[str, FallbackReason] = {
    "provider_overloaded": "overloaded",
    "provider_timeout": "timeout",
    "context_too_long": "context_too_long",
    "provider_refused": "refused",
}
_WORDS: dict[str, str] = {
    "overloaded": "is overloaded",
    "timeout": "did not answer in time",
    "error": "failed",
    "context_too_long": "cannot take a conversation of this length",
    "refused": "declined to answer",
    "failing": "failed several times just now",
}
_OF_THE_SERVER = frozenset({"overloaded", "timeout", "error"})
"""Reasons that other runs would meet too."""


class AnsweringModel(msgspec.Struct, frozen=True):
    """An agent with the model that answers, and what calls that model."""

    agent: AgentConfig
    replies: ReplyStreamer
    output: OutputSpec


class ModelChanger:
    """Changes the model of one attempt. `prepare_model` raises ModelFailure if a model cannot be called."""

    def __init__(
        self,
        performer: Performer,
        agent: AgentConfig,
        failing: FailingModels,
        prepare_model: Callable[[AgentConfig], Awaitable[AnsweringModel]],
    ) -> None:
        self._performer = performer
        self._agent = agent
        self._failing = failing
        self._prepare_model = prepare_model

    async def skip_failing_model(self) -> None:
        """Begin the run with a fall-back if the agent's own model has failed too often just now."""
        run = self._performer.log.run
        if not self._agent.fallbacks or run.fallback or run.replies or not self._is_failing(0):
            return
        if working := [number for number in self._list_next(0, None) if not self._is_failing(number)]:
            await self._change(working[0], "failing")

    async def change_after(self, failure: ModelFailure) -> bool:
        """Change to the next model for this failure. Return False if there is none.

        Raises:
            ModelFailure: The next model cannot be called.
        """
        run, reason = self._performer.log.run, classify_failure(failure)
        if not self._agent.fallbacks or reason is None:
            return False
        if reason in _OF_THE_SERVER:
            self._failing.record_failure(self._performer.agent, time.monotonic())
        seconds = self._performer.clock.seconds_since(run.requested_at) - run.paused_seconds
        may_continue = run.on_interruption == "continue" or not self._performer.channel.text
        numbers = self._list_next(run.fallback, reason)
        if not numbers or not may_continue or seconds > LAST_CHANGE_SECONDS:
            return False
        working = [number for number in numbers if not self._is_failing(number)]
        await self._change((working or numbers)[0], reason)
        return True

    def _list_next(self, number: int, reason: FallbackReason | None) -> list[int]:
        """List the fall-backs after a number that are meant for this reason, None for any."""
        following = enumerate(self._agent.fallbacks[number:], number + 1)
        return [place for place, each in following if reason is None or reason in each.on]

    def _is_failing(self, number: int) -> bool:
        return self._failing.is_failing(use_fallback(self._agent, number), time.monotonic())

    async def _change(self, number: int, reason: str) -> None:
        """Record the change with the cost of the failed calls, tell the readers, and open the model."""
        performer, run = self._performer, self._performer.log.run
        agent = use_fallback(self._agent, number)
        changed = events.WarningRaised(
            trace_id=run.trace_id,
            at=performer.clock.now(),
            code="model_changed",
            subject=agent.model,
            message=f"{_name_model(run.fallback)} {_WORDS[reason]}; fall-back {number} answers instead.",
            fallback=number,
            usage=performer.cost.get_unrecorded(run),
            failed_model=run.model,
        )
        logs.get_logger("run").warning("model_changed", reason=reason, fallback=number)
        metrics.MODEL_CHANGES.labels(provider=performer.agent.provider, reason=reason).inc()
        await performer.log.append([changed])
        performer.cost.mark_recorded()
        await performer.channel.send_warnings([changed.to_warning()])
        answering = await self._prepare_model(agent)
        performer.agent, performer.output = answering.agent, answering.output
        performer.replies = answering.replies
        if performer.channel.text:
            performer.already = SentOutput(text=performer.channel.text, cuts=performer.channel.cuts)


def _name_model(number: int) -> str:
    """Name a model as end users may know it, who have no business with its provider."""
    return f"Fall-back {number}" if number else "The agent's model"


def leave_out_thinking(agent: AgentConfig, run: Run) -> AgentConfig:
    """Return the agent without thinking if its model would require its own before calls of another one.

    Claude models with `budget_tokens` require it (platform.claude.com, extended thinking with tool use).
    """
    thinking = agent.parameters.get("thinking")
    is_foreign = any(each.model not in (None, agent.model) for each in run.replies)
    if agent.provider != "anthropic" or not is_foreign or "budget_tokens" not in (thinking or {}):
        return agent
    parameters = {name: value for name, value in agent.parameters.items() if name != "thinking"}
    return replace(agent, parameters=parameters)


def classify_failure(failure: ModelFailure) -> FallbackReason | None:
    """Return the reason in a fall-back's `on`; None for a failure that must show, such as a wrong key."""
    if failure.code == "provider_error":
        return "error" if failure.transient else None
    return _CODES.get(failure.code)


def describe_failure(run: Run, failure: ModelFailure) -> str:
    """Return a failure's message for callers, with the failures of the run's models before."""
    changes = [each.message for each in run.warnings if each.code == "model_changed"]
    return " ".join([str(failure), *(["Before that:", *changes] if changes else [])])
