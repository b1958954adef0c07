"""Chosen runs done again by the orchestrators, some at a time."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from bus import Bus, BusUnavailable
from contracts import subjects
from contracts.messages import WhatIf, WhatIfAnswered
from conversations.event_store.log import Log
from experiments.chosen_runs import ChosenRun, read
from experiments.comparison import ComparedRun, compared
from experiments.prices import Prices

_SLACK_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_TRIES = 3


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
        self._bus = bus
        self._log = log
        self._seconds = seconds
        self._room = asyncio.Semaphore(at_once)
        self._results: dict[str, ComparedRun] = {}
        self._answered = False

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
                answer = await self._asked(chosen)
                self._results[chosen.trace_id] = compared(chosen.conversation_id, run, answer, self.prices)
        self.finished += 1
        on_done()

    async def _asked(self, chosen: ChosenRun) -> WhatIfAnswered:
        """A worker that is stopping answers `unavailable`; then another one is asked."""
        candidate = self.candidate
        question = WhatIf(
            account_id=candidate.account_id,
            agent_id=candidate.agent_id,
            agent_version=candidate.version,
            conversation_id=chosen.conversation_id,
            trace_id=chosen.trace_id,
            model=candidate.model,
            system_prompt=candidate.system_prompt,
            seconds=self._seconds,
        )
        answer = WhatIfAnswered(outcome="unavailable")
        for _ in range(_TRIES):
            answer = await self._answer(question)
            if answer.outcome != "unavailable":
                break
            await asyncio.sleep(_AGAIN_SECONDS)
        return answer

    async def _answer(self, question: WhatIf) -> WhatIfAnswered:
        try:
            answer = await self._bus.rpc.ask(
                subjects.WHAT_IF, question, WhatIfAnswered, timeout=question.seconds + _SLACK_SECONDS
            )
        except BusUnavailable as error:
            if not self._answered:
                raise
            return WhatIfAnswered(outcome="unavailable", detail=str(error))
        self._answered = True
        return answer
