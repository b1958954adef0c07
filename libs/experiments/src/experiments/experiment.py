"""Chosen runs done again by the orchestrators, some at a time."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from bus.bus import Bus
from contracts.replay_messages import WhatIf
from conversations.event_store.log import Log
from experiments.chosen_runs import ChosenRun, read
from experiments.comparison import ComparedRun, compared
from experiments.prices import Prices
from experiments.reruns import Reruns


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers: a version of an agent; `model` and `system_prompt`, where given, in place of its own."""

    account_id: str
    agent_id: str
    version: int
    model: str | None = None
    system_prompt: str | None = None


class Experiment:
    """Runs the `chosen` runs again. `seconds` bounds one run, `at_once` the number of active ones.

    The model is really called, with the agent's key. Tools are not: their results are read from the log.
    Nothing is stored, published or counted against any limit.
    """

    def __init__(
        self,
        bus: Bus,
        log: Log,
        candidate: Candidate,
        chosen: Sequence[ChosenRun],
        *,
        prices: Prices,
        seconds: float = 120.0,
        at_once: int = 4,
    ) -> None:
        self.candidate = candidate
        self.chosen = tuple(chosen)
        self.prices = prices
        self.finished = 0
        self._reruns = Reruns(bus)
        self._log = log
        self._seconds = seconds
        self._room = asyncio.Semaphore(at_once)
        self._results: dict[str, ComparedRun] = {}

    @property
    def done(self) -> list[ComparedRun]:
        """What is known by now, in the order of `chosen`; nothing of a conversation erased meanwhile."""
        return [self._results[each.trace_id] for each in self.chosen if each.trace_id in self._results]

    def result(self, trace_id: str) -> ComparedRun | None:
        return self._results.get(trace_id)

    async def run(self, on_done: Callable[[], None] = lambda: None) -> None:
        """Every run; `on_done` is called after each. To stop it, cancel it: `done` stays. What is active at
        an orchestrator then ends by itself.

        Raises BusUnavailable where no orchestrator ever answers, Conflict for a conversation that cannot be
        read, DatabaseUnavailable.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for each in self.chosen:
                    group.create_task(self._one(each, on_done))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _one(self, chosen: ChosenRun, on_done: Callable[[], None]) -> None:
        async with self._room:
            run = (await read(self._log, chosen.conversation_id)).run(chosen.trace_id)
            if run is not None:
                answer = await self._reruns.answer(self._question(chosen))
                self._results[chosen.trace_id] = compared(chosen.conversation_id, run, answer, self.prices)
        self.finished += 1
        on_done()

    def _question(self, chosen: ChosenRun) -> WhatIf:
        candidate = self.candidate
        return WhatIf(
            account_id=candidate.account_id,
            agent_id=candidate.agent_id,
            agent_version=candidate.version,
            conversation_id=chosen.conversation_id,
            trace_id=chosen.trace_id,
            model=candidate.model,
            system_prompt=candidate.system_prompt,
            seconds=self._seconds,
        )
