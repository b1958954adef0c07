"""Takes runs that have ended and are in their agents' shares, judges them, and stores their scores.

Any number of processes do so: each leases some runs at a time. A run whose process has died is due again when
its lease ends, and what is stored of it stays.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from contracts.values import Usage
from conversations.errors import ConversationsError
from conversations.event_store.log import Log
from conversations.judged.judged_runs import (
    Judgement,
    LeasedRun,
    forget_run,
    is_any_judged,
    lease_runs,
    store,
    take_ended,
    waiting,
)
from conversations.judged.run_scores import changes
from directory.agents import load_agent
from directory.live_judging import LiveJudging
from evals.judging.live_evaluators import UnfitEvaluator, live_evaluators
from evals.judging.live_scoring import LiveScores, asked_live, live_judge, live_scores, unjudged
from evals.judging.model_judges import ModelJudge
from experiments.reruns import Reruns
from runtime import metrics
from runtime.following import repeat
from runtime.logs import bound, get_logger
from runtime.postgres import DatabaseUnavailable, Pool, connection

AT_ONCE = 8
LEASE_SECONDS = 300.0
_JUDGE_SECONDS = LEASE_SECONDS - 20.0
"""A run takes no longer, so that its scores are stored while it is leased."""

POLL_SECONDS = 2.0
MOST_TRIES = 6
RETRY_SECONDS = 30.0
"""After the first try in which a provider refused; doubled after each other: a quarter of an hour in all."""

_MEASURE_SECONDS = 60.0


class RunJudging:
    """One process's share. `answered` is called when Postgres has answered."""

    def __init__(self, pool: Pool, reruns: Reruns, answered: Callable[[], None] = lambda: None) -> None:
        self._pool = pool
        self._log = Log(pool)
        self._reruns = reruns
        self._answered = answered
        self._judging: set[asyncio.Task[None]] = set()
        self._logger = get_logger("judge.judge_runs")

    async def run(self) -> None:
        """Until no agent has runs judged. Raises DatabaseUnavailable."""
        self._logger.info("judging")
        measuring = asyncio.create_task(self._measure())
        try:
            while await self._has_work():
                if not await self.step():
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            measuring.cancel()
            for task in self._judging:
                task.cancel()
            await asyncio.gather(*self._judging, return_exceptions=True)

    async def step(self) -> bool:
        """Begin with what is due; whether there may be more at once. Raises DatabaseUnavailable."""
        more = await take_ended(self._pool)
        free = AT_ONCE - len(self._judging)
        leased = await lease_runs(self._pool, free, LEASE_SECONDS) if free else []
        self._answered()
        for run in leased:
            task = asyncio.create_task(self._judge(run))
            self._judging.add(task)
            task.add_done_callback(self._judging.discard)
        if more or len(leased) < free or not self._judging:
            return more
        await asyncio.wait(self._judging, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def settle(self) -> None:
        """Until all that was begun has ended."""
        while self._judging:
            await asyncio.wait(self._judging)

    async def _has_work(self) -> bool:
        async with connection(self._pool) as conn:
            return await is_any_judged(conn) or (await waiting(conn))[0] > 0

    async def _judge(self, run: LeasedRun) -> None:
        with bound(trace_id=run.trace_id, conversation_id=run.conversation_id):
            try:
                async with asyncio.timeout(_JUDGE_SECONDS):
                    await self._judge_leased(run)
            except (DatabaseUnavailable, TimeoutError) as error:  # it is due again when its lease ends
                self._logger.warning("run_not_judged", reason=str(error) or type(error).__name__)
            except Exception:  # the outermost frame of a run: others go on
                self._logger.exception("run_not_judged")

    async def _judge_leased(self, run: LeasedRun) -> None:
        agent = await load_agent(self._pool, run.account_id, run.agent_id, run.agent_version)
        if agent is None or agent.judging is None:
            await forget_run(self._pool, run)
            return
        judging = agent.judging
        try:
            evaluators = live_evaluators(judging)
            conversation = await self._log.conversation(run.conversation_id)
        except (UnfitEvaluator, ConversationsError) as error:  # of another release, or not readable
            await self._store(run, _all_unjudged(judging, str(error)), 0)
            return
        recorded = conversation.run(run.trace_id)
        if recorded is None:
            await forget_run(self._pool, run)  # erased
            return
        if run.tries > MOST_TRIES:  # each of them has ended its process, or taken too long
            await self._store(run, _all_unjudged(judging, "judging it did not end"), 0)
            return
        spending = _Spending(judging.tokens_per_day - run.spent)
        ask = asked_live(live_judge(agent, judging), self._reruns, spending.lasts, spending.add)
        for each in evaluators:
            if isinstance(each, ModelJudge):
                each.ask = ask
        await self._store(
            run, await live_scores(conversation, recorded, evaluators, run.has), spending.tokens
        )

    async def _store(self, run: LeasedRun, scores: LiveScores, tokens: int) -> None:
        """What was refused is tried again, until it is stored as not judged."""
        last = run.tries >= MOST_TRIES or not scores.refused
        known = scores.known + scores.refused if last else scores.known
        again = None if last else RETRY_SECONDS * 2.0 ** (run.tries - 1)
        if await store(self._pool, Judgement(run=run, scores=known, tokens=tokens, again=again)):
            for each in known:
                if each.evaluator not in run.has:
                    metrics.JUDGED.add(outcome=each.unjudged or ("passed" if each.passed else "failed"))
        if not last:
            self._logger.warning("judge_refused", reason=scores.refused[0].reason, again_seconds=again)

    async def _measure(self) -> NoReturn:
        shown: set[tuple[str, str]] = set()

        async def measure() -> None:
            async with connection(self._pool, seconds=30.0) as conn:
                count, seconds = await waiting(conn)
                found = {(each.agent_id, each.evaluator): each for each in await changes(conn)}
            metrics.JUDGE_WAITING.set(count)
            metrics.JUDGE_LAG.set(seconds)
            for agent_id, evaluator in shown | found.keys():
                each = found.get((agent_id, evaluator))
                labels = {"agent": agent_id, "evaluator": evaluator}
                metrics.SCORE_MEAN.set(None if each is None else each.recent.mean, **labels)
                metrics.SCORE_DROP.set(None if each is None else each.drop, **labels)
            shown.update(found)

        await repeat(
            measure, _MEASURE_SECONDS, DatabaseUnavailable, log=self._logger, problem="cannot_measure"
        )


class _Spending:
    """What the judges of one run cost; `left` is of the day's tokens."""

    def __init__(self, left: int) -> None:
        self.tokens = 0
        self._left = left

    def lasts(self) -> bool:
        return self.tokens < self._left

    def add(self, model: str, usage: Usage) -> None:
        self.tokens += usage.total
        metrics.JUDGE_TOKENS.add(usage.total, model=model)


def _all_unjudged(judging: LiveJudging, reason: str) -> LiveScores:
    names = (str(each.get("label") or each.get("name")) for each in judging.evaluators)
    return LiveScores(known=tuple(unjudged(name, "raised", reason) for name in names))
