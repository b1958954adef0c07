"""A run of a suite as a command shows it: the estimate, the progress, the file of results, a summary."""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from bus import Bus
from conversations.event_store.log import Log
from evals.answer_cache import AnswerCache, CacheFolder
from evals.case_file import read_cases
from evals.cases import Case
from evals.running import RunPlan, SuiteRun
from evals.spending import Spending
from evals.suite import Suite, replacing
from experiments.chosen_runs import Estimate, estimate
from experiments.reruns import Reruns
from ops import printing
from ops.output import counted

if TYPE_CHECKING:
    from evals.verdict.verdict import SuiteVerdict

RESULTS = "results.jsonl"
STOPPED = "stopped; what was answered is kept, and the next run does not pay for it again"


class SuiteSession:
    """One run of `suite`; `output` is the file of its results. `keeps` False: nothing is read of what earlier
    runs have paid for.
    """

    def __init__(self, suite: Suite, spending: Spending, output: Path, *, keeps: bool) -> None:
        self._suite = suite
        self._spending = spending
        self._output = output
        self._keeps = keeps

    async def run(self, bus: Bus, plan: RunPlan, log: Log | None = None) -> SuiteRun:
        """Until each case has its results; their file appears then. `log` knows what was erased.

        Raises SuiteError, BusUnavailable.
        """
        # Imported here: judging loads what no other part of a run needs.
        from evals.judging.asked_judge import asked_of, judge_of
        from evals.judging.suite_judging import asks_model, judge_results

        judge = judge_of(self._suite, plan.agent)
        self._spending.check(plan.agent.settings.model)
        if asks_model(self._suite):
            self._spending.check(judge.settings.model)
        cache = AnswerCache(self._suite.folder, plan.agent, plan.tools, keeps=self._keeps)
        reruns = Reruns(bus)
        run = SuiteRun(reruns, plan, cache, self._spending, _Erasures(log) if log else None)
        expected = await asyncio.to_thread(self._expected, run, plan)
        printing.note(self._announced(expected, plan))
        with replacing(self._output) as file:
            await self._write(run, file, expected.runs)
        ask = asked_of(judge, reruns, self._spending, CacheFolder(self._suite.folder, keeps=self._keeps))
        await judge_results(self._suite, self._output, ask)
        return run

    def report(self, run: SuiteRun, verdict: "SuiteVerdict", *, as_json: bool) -> None:
        """Print what was run, and as JSON what follows of it."""
        outcomes = run.outcomes
        if as_json:
            printing.as_json(
                {
                    "outcomes": dict(outcomes),
                    "cached": run.cached,
                    "tokens": self._spending.tokens,
                    "cost": self._spending.money,
                    "currency": self._spending.prices.currency,
                    "results": str(self._output),
                    "verdict": verdict,
                }
            )
        else:
            printing.table(("OUTCOME", "RUNS"), sorted(outcomes.items()))
        for outcome, first in sorted(run.first.items()):
            if outcome != "completed":
                printing.note(f"{outcome}, such as {first.case_id}: {first.detail or first.diverged_at}")
        cached = f", {run.cached:,} of them paid for before" if run.cached else ""
        printing.note(f"{counted(outcomes.total(), 'run')}{cached}: {self._spent()}; {self._output}")

    def _expected(self, run: SuiteRun, plan: RunPlan) -> Estimate:
        wanted = run.expected(read_cases(self._suite.cases))
        return estimate(wanted, self._spending.prices, plan.agent.settings.model, plan.concurrency)

    def _announced(self, expected: Estimate, plan: RunPlan) -> str:
        cost = (
            ""
            if expected.cost is None or not self._spending.prices.models
            else f", {self._money(expected.cost)}"
        )
        return (
            f"{counted(expected.runs, 'run')} to pay for: some {expected.tokens:,} tokens{cost}, "
            f"{expected.seconds:,.0f} s with {plan.concurrency} at a time, if they go as they went"
        )

    async def _write(self, run: SuiteRun, file: BinaryIO, expected: int) -> None:
        with printing.progress("running") as bar:
            task = bar.add_task("", total=expected)
            async with contextlib.aclosing(run.results(read_cases(self._suite.cases))) as results:
                async for result in results:
                    file.write(msgspec.json.encode(result) + b"\n")
                    paid = run.outcomes.total() - run.cached
                    bar.update(task, completed=paid, description=self._spent())

    def _spent(self) -> str:
        tokens = f"{self._spending.tokens:,} tokens"
        return f"{tokens}, {self._money(self._spending.money)}" if self._spending.prices.models else tokens

    def _money(self, amount: float) -> str:
        return f"{amount:.4f} {self._spending.prices.currency}".rstrip()


class _Erasures:
    """Whether the conversation of a case was erased in the installation that it is of."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def __call__(self, case: Case) -> bool:
        return (await self._log.newest_run(case.origin.conversation_id)).erased
