"""The cases of a suite done again by another version of an agent: some at a time, each answer kept.

A case is in memory while it is under way, so that a suite may have any number of them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

import msgspec

from contracts.replay_messages import AskedTool, WhatIfAnswered
from conversations.aggregate.conversation import Run
from conversations.errors import UnreadableEvent
from evals.answer_cache import AnswerCache
from evals.case_file import DamagedCase
from evals.cases import Case
from evals.errors import QuestionTooLarge
from evals.questions import answer_to, question_of
from evals.recorded_run import run_of_case
from evals.results import CaseOutcome, CaseResult
from evals.spending import Spending
from evals.suite import SuiteAgent, SuiteTools
from experiments.chosen_runs import ChosenRun, chosen_run
from experiments.comparison import call_line, compared
from experiments.reruns import Reruns

_REFUSED = frozenset(
    {"http_401", "http_402", "http_403", "connection", "address", "no_key", "key_unreadable"}
)
"""Of failures that say nothing of the version: the provider was not reached, or took no call."""
_HOPELESS = frozenset({"no_key", "key_unreadable", "unknown_provider", "agent_not_found"})
"""Of failures, by kind or code, that every case would have."""
_UNAVAILABLE_IN_A_ROW = 10
_AHEAD = 16
"""Times the concurrency: so many results wait at most for that of an earlier case."""

Known = Callable[[Case], Awaitable[bool]]


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers, and how. `account_id` is that of the suite's cases. `rate` counts starts in a second,
    `seconds` bound one run.
    """

    agent: SuiteAgent
    account_id: str
    tools: SuiteTools = SuiteTools()
    repeats: int = 1
    concurrency: int = 4
    rate: float | None = None
    seconds: float = 120.0


class SuiteRun:
    """One run of a suite; `outcomes` counts its results, `cached` those that had been paid for. `first` has
    the first result of each outcome.
    """

    def __init__(
        self, reruns: Reruns, plan: RunPlan, cache: AnswerCache, spending: Spending, is_erased: Known | None
    ) -> None:
        self.outcomes: Counter[CaseOutcome] = Counter()
        self.first: dict[CaseOutcome, CaseResult] = {}
        self.cached = 0
        self.spending = spending
        self._reruns = reruns
        self._plan = plan
        self._cache = cache
        self._is_erased = is_erased
        self._stopped: str | None = None
        self._unavailable = 0
        self._next_start = 0.0

    async def results(self, cases: Iterable[Case | DamagedCase]) -> AsyncGenerator[CaseResult, None]:
        """A result for each attempt at each case, in their order. What cannot be run is among them.

        Close it with `contextlib.aclosing`: what is under way then ends by itself at the orchestrators.
        Raises BusUnavailable where no orchestrator ever answers, UnfitSuite.
        """
        ordered: deque[asyncio.Task[CaseResult]] = deque()
        under_way: set[asyncio.Task[CaseResult]] = set()
        most = self._plan.concurrency
        try:
            for case, attempt in self._attempts(cases):
                while under_way and (
                    len(under_way) >= most or len(ordered) >= _AHEAD * most or not self.spending.lasts
                ):
                    _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    while ordered and ordered[0].done():
                        yield ordered.popleft().result()
                if not self.spending.lasts:
                    self._stopped = self._stopped or "the budget of the run is spent"
                task = asyncio.create_task(self._counted(case, attempt))
                ordered.append(task)
                under_way.add(task)
            while ordered:
                yield await ordered.popleft()
        finally:
            for task in ordered:
                task.cancel()
            await asyncio.gather(*ordered, return_exceptions=True)

    def expected(self, cases: Iterable[Case | DamagedCase]) -> Iterator[ChosenRun]:
        """What is to be paid for, as it was recorded: once for each attempt that is not cached."""
        for case, attempt in self._attempts(cases):
            if isinstance(case, Case) and self._cache.find(case, attempt) is None:
                try:
                    yield chosen_run(case.origin.conversation_id, run_of_case(case))
                except (UnreadableEvent, LookupError):
                    continue

    def _attempts(self, cases: Iterable[Case | DamagedCase]) -> Iterator[tuple[Case | DamagedCase, int]]:
        for case in cases:
            for attempt in range(1, (1 if isinstance(case, DamagedCase) else self._plan.repeats) + 1):
                yield case, attempt

    async def _counted(self, case: Case | DamagedCase, attempt: int) -> CaseResult:
        if isinstance(case, DamagedCase):
            result = _unrun(case.case_id or f"line {case.line}", attempt, "damaged", str(case))
        else:
            result = await self._one(case, attempt)
        self.outcomes[result.outcome] += 1
        self.first.setdefault(result.outcome, result)
        self.cached += result.cached
        return result

    async def _one(self, case: Case, attempt: int) -> CaseResult:
        if case.origin.account_id != self._plan.account_id:
            return _unrun(case.id, attempt, "damaged", f"it is of account {case.origin.account_id}")
        try:
            recorded = run_of_case(case)
        except (UnreadableEvent, LookupError) as error:
            return _unrun(case.id, attempt, "damaged", str(error))
        if self._is_erased is not None and await self._is_erased(case):
            return _unrun(
                case.id, attempt, "erased", "its conversation was deleted; run `agentchat eval sync`"
            )
        answer = self._cache.find(case, attempt)
        if answer is not None:
            return msgspec.structs.replace(self._result(case, attempt, recorded, answer), cached=True)
        if self._stopped is not None:
            return _unrun(case.id, attempt, "not_run", self._stopped)
        reserved = self.spending.reserve(self._plan.agent.settings.model, recorded.usage)
        try:
            await self._pace()
            question = question_of(case, self._plan.agent, self._plan.tools, self._plan.seconds)
            answer = await answer_to(self._reruns, question)
        except QuestionTooLarge as error:
            return _unrun(case.id, attempt, "not_run", str(error))
        finally:
            self.spending.release(reserved)
        self.spending.add(answer.model or self._plan.agent.settings.model, answer.usage)
        self._note(answer)
        result = self._result(case, attempt, recorded, answer)
        if result.outcome in ("completed", "failed", "diverged"):
            self._cache.store(case, attempt, answer)
        return result

    async def _pace(self) -> None:
        if self._plan.rate is None:
            return
        loop = asyncio.get_running_loop()
        start = max(loop.time(), self._next_start)
        self._next_start = start + 1 / self._plan.rate
        await asyncio.sleep(start - loop.time())

    def _note(self, answer: WhatIfAnswered) -> None:
        """Stop where every case would fare alike."""
        self._unavailable = self._unavailable + 1 if answer.outcome == "unavailable" else 0
        if answer.kind in _HOPELESS or answer.code in _HOPELESS:
            self._stopped = self._stopped or answer.detail
        elif self._unavailable >= _UNAVAILABLE_IN_A_ROW:
            self._stopped = self._stopped or f"no orchestrator answers any more: {answer.detail}"

    def _result(self, case: Case, attempt: int, recorded: Run, answer: WhatIfAnswered) -> CaseResult:
        outcome = _outcome(answer)
        if outcome in ("not_run", "damaged"):
            return _unrun(case.id, attempt, outcome, answer.detail or answer.code or answer.outcome)
        return CaseResult(
            case_id=case.id,
            attempt=attempt,
            outcome=outcome,
            detail=answer.detail,
            compared=compared(case.origin.conversation_id, recorded, answer, self.spending.prices),
            diverged_at=_place(answer),
            simulated=tuple(call_line(call) for call in answer.calls if call.simulated),
        )


def _outcome(answer: WhatIfAnswered) -> CaseOutcome:
    match answer.outcome:
        case "completed":
            return "completed"
        case "not_found":
            return "damaged"
        case "unavailable":
            return "not_run"
        case _ if answer.diverged is not None:
            return "diverged"
        case _:
            refused = answer.transient or {answer.kind, answer.code} & (_REFUSED | _HOPELESS)
            return "not_run" if refused else "failed"


def _place(answer: WhatIfAnswered) -> str | None:
    """`round 2: get_order {"id":"A-1"}; recorded: get_order {"id":"A-2"}`."""
    if answer.diverged is None:
        return None
    place, nearest = _called(answer.diverged.call), answer.diverged.nearest
    return place if nearest is None else f"{place}; recorded in {_called(nearest)}"


def _called(call: AskedTool) -> str:
    return f"round {call.round}: {call_line(call)}"


def _unrun(case_id: str, attempt: int, outcome: CaseOutcome, detail: str) -> CaseResult:
    return CaseResult(case_id=case_id, attempt=attempt, outcome=outcome, detail=detail)
