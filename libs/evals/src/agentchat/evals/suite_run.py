"""Run the cases of a suite on another version of an agent, and judge the replies by pydantic-evals.

The same dataset is evaluated twice: by a task that returns the recorded run, and by one that asks the
orchestrators (`orchestrator.rpc.answer_what_if`). Answers are cached in the suite's folder by what was asked,
and paid for once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import infer_model
from pydantic_evals import Case as DatasetCase
from pydantic_evals import Dataset, increment_eval_metric, set_eval_attribute
from pydantic_evals.evaluators import LLMJudge
from pydantic_evals.evaluators.llm_as_a_judge import set_default_judge_model
from pydantic_evals.reporting import EvaluationReport

from agentchat.bus.errors import BusUnavailable, MessageTooLarge
from agentchat.contracts.replay_messages import WhatIf, WhatIfAnswered
from agentchat.contracts.values import ToolSpec
from agentchat.conversations.aggregate.conversation import Run
from agentchat.directory.agent_config import AgentSettings
from agentchat.evals.answer_cache import AnswerCache, AnsweringVersion
from agentchat.evals.case_results import COMPLETED, CaseOutcome, CaseResult
from agentchat.evals.cases import Case
from agentchat.evals.compared_run import ComparedRun, compare_run, get_recorded_figures, get_recorded_output
from agentchat.evals.errors import UnfitSuite
from agentchat.evals.evaluators import DEFAULTS, OWN, CaseInput, Phrases, RecordedRun
from agentchat.evals.replay_requests import Reruns
from agentchat.evals.suite import CASES, SETTINGS, Suite
from agentchat.runtime.prices import Prices

_MOST_EARLIER = 8_000
"""Characters of earlier messages that a judge sees."""
_NOT_OF_THE_VERSION = frozenset({"http_401", "http_402", "http_403", "connection", "address"})
_HOPELESS = frozenset({"no_key", "key_unreadable", "unknown_provider", "agent_not_found"})
"""Failures, by kind or code, that do not depend on the version; the latter fail every case."""

Judged = Dataset[CaseInput, str, RecordedRun]
JudgedReport = EvaluationReport[CaseInput, str, RecordedRun]


class NotCompleted(Exception):  # noqa: N818 - an outcome of a task
    """A run did not complete, so it has no reply to judge."""


class SuiteRun:
    """A run of a suite. `tokens` and `money` were spent, `cached` answers had been paid for before."""

    def __init__(
        self,
        suite: Suite,
        cases: Sequence[Case],
        answering: AnsweringVersion,
        reruns: Reruns,
        prices: Prices,
        *,
        repeats: int,
        fresh: bool = False,
        erased: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare the run; `erased` are ids of deleted conversations. Raises UnfitSuite, NotACase."""
        self.tokens = 0
        self.money = 0.0
        self.cached = 0
        self.prices = prices
        self._suite = suite
        self._cases = {each.id: each for each in cases}
        self._answering = answering
        self._reruns = reruns
        self._repeats = repeats
        self._answers = AnswerCache(suite.folder, answering, fresh=fresh)
        self._erased = erased
        self._stopped: str | None = None
        self._recorded: dict[str, Run] = {}
        self._tries: dict[str, list[ComparedRun]] = defaultdict(list)
        self._outcomes: dict[str, list[tuple[CaseOutcome, str]]] = defaultdict(list)
        self._begun: dict[str, int] = defaultdict(int)
        self._dataset = self._build_dataset()
        if any(isinstance(each, LLMJudge) for each in self._dataset.evaluators):
            _choose_judge(suite.settings.judge)
        if suite.settings.budget.money is not None and not prices.has_price(answering.answering_model):
            missing = f"budget.money needs a price table that has {answering.answering_model} (--prices)"
            raise UnfitSuite(SETTINGS, missing)

    async def run(self, *, judge_recorded: bool, progress: bool = False) -> list[CaseResult]:
        """Run and judge every case; `judge_recorded` is needed to compare with the recorded runs."""
        most = self._suite.settings.concurrency
        before: Mapping[str, dict[str, float]] = {}
        if judge_recorded:
            recorded = await self._dataset.evaluate(
                self._give_recorded, name="recorded", progress=False, max_concurrency=most
            )
            before, _, _ = _collect_scores(recorded)
        answered = await self._dataset.evaluate(
            self._answer, name="answered", progress=progress, max_concurrency=most, repeat=self._repeats
        )
        after, reasons, failures = _collect_scores(answered)
        return [
            self._build_result(case, before.get(case.id, {}), after, reasons, failures)
            for case in self._cases.values()
        ]

    def estimate_tokens(self) -> int:
        """Estimate the tokens to pay for by those of the recorded runs."""
        return sum(
            self._recorded[case.id].usage.total
            for case in self._cases.values()
            for attempt in range(1, self._repeats + 1)
            if self._answers.find(case, attempt) is None
        )

    def _build_dataset(self) -> Judged:
        made: list[DatasetCase[CaseInput, str, RecordedRun]] = []
        for case in self._cases.values():
            conversation, run = case.fold_events()
            self._recorded[case.id] = run
            figures = get_recorded_figures(run, self.prices)
            made.append(
                DatasetCase(
                    name=case.id,
                    inputs=CaseInput(
                        case.id, case.message, _list_earlier_messages(conversation.runs, case.id)
                    ),
                    expected_output=get_recorded_output(run).content,
                    metadata=RecordedRun(
                        calls=list(get_recorded_output(run).calls),
                        passages=len(case.passages),
                        tokens=figures.tokens,
                        seconds=figures.seconds,
                        cost=figures.cost,
                    ),
                    evaluators=tuple(parse_evaluators(case.evaluators, CASES, f"case {case.id}")),
                )
            )
        settings = self._suite.settings.evaluators
        evaluators = (
            parse_evaluators(settings, SETTINGS, "evaluators") if settings else [each() for each in DEFAULTS]
        )
        replies = [
            each.expected_output or "" for each in made if self._recorded[each.name or ""].state == COMPLETED
        ]
        for each in evaluators:
            if isinstance(each, Phrases):
                each.learn(replies)
        return Judged(name="suite", cases=made, evaluators=evaluators)

    async def _give_recorded(self, inputs: CaseInput) -> str:
        run = self._recorded[inputs.case_id]
        if run.state != COMPLETED:
            raise NotCompleted(run.state)
        output, figures = get_recorded_output(run), get_recorded_figures(run, self.prices)
        _report_to_evaluators(list(output.calls), figures.tokens, figures.seconds, figures.cost)
        return output.content

    async def _answer(self, inputs: CaseInput) -> str:
        case = self._cases[inputs.case_id]
        self._begun[case.id] += 1
        answer, outcome, detail = await self._find_or_ask(case, self._begun[case.id])
        self._outcomes[case.id].append((outcome, detail))
        if answer is not None:
            run = compare_run(case.conversation_id, self._recorded[case.id], answer, self.prices)
            self._tries[case.id].append(run)
            figures = run.replayed
            _report_to_evaluators(list(run.after.calls), figures.tokens, figures.seconds, figures.cost)
        if outcome != "completed" or answer is None:
            raise NotCompleted(f"{outcome}: {detail}")
        return answer.content

    async def _find_or_ask(self, case: Case, attempt: int) -> tuple[WhatIfAnswered | None, CaseOutcome, str]:
        if case.account_id != self._suite.settings.account:
            return None, "not_run", f"it is of account {case.account_id}"
        if case.conversation_id in self._erased:
            return None, "erased", "its conversation was deleted; run `agentchat eval sync`"
        kept = self._answers.find(case, attempt)
        if kept is not None:
            self.cached += 1
            return kept, *_classify(kept)
        if self._stopped is None and not self._has_budget():
            self._stopped = "the run's budget is spent"
        if self._stopped is not None:
            return None, "not_run", self._stopped
        try:
            answer = await self._reruns.answer(self._build_question(case))
        except MessageTooLarge as error:
            return None, "not_run", str(error)
        except BusUnavailable as error:
            self._stopped = f"no orchestrator answers: {error}"
            return None, "not_run", self._stopped
        self.tokens += answer.usage.total
        self.money += (
            self.prices.compute_cost(answer.model or self._answering.answering_model, answer.usage) or 0.0
        )
        outcome, detail = _classify(answer)
        if {answer.kind, answer.code} & _HOPELESS:
            self._stopped = detail
        if outcome == "not_run":
            return None, outcome, detail
        self._answers.store(case, attempt, answer)
        return answer, outcome, detail

    def _build_question(self, case: Case) -> WhatIf:
        agent = self._answering.agent
        return WhatIf(
            account_id=agent.account_id,
            agent_id=agent.agent_id,
            agent_version=agent.version,
            conversation_id=case.conversation_id,
            trace_id=case.id,
            model=self._answering.model,
            system_prompt=self._answering.system_prompt,
            seconds=self._answering.seconds,
            record=case.events,
            passages=case.passages,
            offered=select_tools(agent.settings, case.offered),
        )

    def _has_budget(self) -> bool:
        budget = self._suite.settings.budget
        return (budget.tokens is None or self.tokens < budget.tokens) and (
            budget.money is None or self.money < budget.money
        )

    def _build_result(
        self,
        case: Case,
        before: dict[str, float],
        after: Mapping[str, dict[str, float]],
        reasons: Mapping[str, dict[str, str]],
        failures: Mapping[str, dict[str, str]],
    ) -> CaseResult:
        tries, outcomes = self._tries[case.id], self._outcomes[case.id]
        known = [outcome for outcome, _ in outcomes if outcome not in ("not_run", "erased")]
        scores = dict(after.get(case.id, {}))
        recorded = dict(before)
        if known:
            scores[COMPLETED] = known.count("completed") / len(known)
            recorded[COMPLETED] = float(self._recorded[case.id].state == COMPLETED)
        outcome, detail = min(outcomes, key=lambda each: _WORST_FIRST.index(each[0]))
        shown = min(tries, key=lambda each: (each.outcome == "completed", each.alike), default=None)
        told = dict(reasons.get(case.id, {}))
        if outcome != "completed":
            told[COMPLETED] = f"{outcome}: {detail}"
        return CaseResult(
            case_id=case.id,
            slices=case.slices,
            outcome=outcome,
            detail=detail,
            before=recorded,
            after=scores,
            reasons=told,
            failures=failures.get(case.id, {}),
            compared=shown,
        )


_WORST_FIRST: tuple[CaseOutcome, ...] = ("erased", "diverged", "failed", "completed", "not_run")


def parse_evaluators(given: Iterable[Any], file: str, place: str) -> list[Any]:
    """Parse evaluators written as in datasets of pydantic-evals. Raises UnfitSuite."""
    specs = list(given)
    if not specs:
        return []
    try:
        data = {"name": "suite", "cases": [], "evaluators": specs}
        found = Dataset[Any, Any, Any].from_dict(data, custom_evaluator_types=OWN)
    except ExceptionGroup as errors:
        raise UnfitSuite(file, f"{place}: {_format_error(errors.exceptions[0])}") from None
    except (ValidationError, ValueError, TypeError) as error:
        raise UnfitSuite(file, f"{place}: {_format_error(error)}") from None
    return list(found.evaluators)


def _choose_judge(model: str | None) -> None:
    """Set the judge's model. Raises UnfitSuite if there is no model, or no key for it."""
    if model is None:
        raise UnfitSuite(SETTINGS, "judge: LLMJudge needs a model, such as anthropic:claude-sonnet-4-5")
    try:
        set_default_judge_model(infer_model(model))
    except (UserError, ValueError, ImportError) as error:
        raise UnfitSuite(SETTINGS, f"judge: {_format_error(error)}") from None


def _format_error(error: BaseException) -> str:
    cause = error.__cause__
    text = f"{error}: {cause}" if cause is not None else str(error)
    return " ".join(text.split())[:500]


def select_tools(settings: AgentSettings, collected: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools that were offered then and that the settings' servers still allow the agent.

    A tool that only the new settings have is not known here, and not offered.
    """
    servers = {server.name: server for server in settings.mcp_servers if not server.disabled}
    return tuple(
        spec
        for spec in collected
        if (server := servers.get(spec.server)) is not None
        and (server.allowed_tools is None or spec.tool in server.allowed_tools)
    )


def _classify(answer: WhatIfAnswered) -> tuple[CaseOutcome, str]:
    detail = answer.detail or answer.code or ""
    match answer.outcome:
        case "completed":
            return "completed", ""
        case "diverged":
            return "diverged", detail
        case "failed" if not answer.transient and not {answer.kind, answer.code} & (
            _NOT_OF_THE_VERSION | _HOPELESS
        ):
            return "failed", detail
        case _:
            return "not_run", detail or answer.outcome


def _report_to_evaluators(calls: list[Any], tokens: float, seconds: float, cost: float | None) -> None:
    """Pass on to the evaluators what a task's run did."""
    set_eval_attribute("calls", calls)
    increment_eval_metric("tokens", tokens)
    increment_eval_metric("seconds", seconds)
    if cost is not None:
        increment_eval_metric("cost", cost)


def _list_earlier_messages(runs: Sequence[Run], trace_id: str) -> list[str]:
    """Return the newest earlier messages that fit, for judges."""
    said: list[str] = []
    for run in runs:
        if run.trace_id == trace_id:
            break
        said += [f"user: {run.user_text}", f"assistant: {get_recorded_output(run).content}"]
    kept, left = [], _MOST_EARLIER
    for each in reversed(said):
        left -= len(each)
        if left < 0:
            break
        kept.append(each)
    return kept[::-1]


_ByCase = dict[str, dict[str, Any]]


def _collect_scores(report: JudgedReport) -> tuple[_ByCase, _ByCase, _ByCase]:
    """Return means over the attempts, reasons and failures by case and evaluator."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    reasons: _ByCase = defaultdict(dict)
    failures: _ByCase = defaultdict(dict)
    for each in report.cases:
        case_id = each.source_case_name or each.name
        for name, result in {**each.scores, **each.assertions}.items():
            values[case_id][name].append(float(result.value))
            if result.reason and result.value != 1:
                reasons[case_id][name] = result.reason
        for failure in each.evaluator_failures:
            failures[case_id][failure.name] = " ".join(failure.error_message.split())[:500]
    means = {
        case_id: {name: sum(found) / len(found) for name, found in by_name.items()}
        for case_id, by_name in values.items()
    }
    return means, reasons, failures
