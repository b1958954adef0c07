"""A suite's runs judged: batches of cases become datasets of `pydantic-evals`, their reports scores."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from pydantic_evals import Case as EvaluatedCase
from pydantic_evals import Dataset
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext, EvaluatorFailure
from pydantic_evals.reporting import ReportCase

from evals.cases import Case
from evals.judging.evaluator_registry import CHECK, COMPLETED, evaluator
from evals.judging.figure_evaluators import UnknownFigure
from evals.judging.judged_cases import RECORDED, JudgedCase, JudgedTry, Score, Unjudged, UnjudgedKind
from evals.judging.model_judges import Ask, CouldNotJudge, ModelJudge, NotAsked, Unfit
from evals.judging.recorded_profile import OfProfile, RecordedProfile
from evals.judging.run_evaluator import Question, RunContext, RunEvaluator, RunToJudge, evaluated, options_of
from evals.recorded_run import conversation_of, earlier_messages
from evals.results import CaseOutcome, CaseResult

_BATCH = 100
_KINDS: Mapping[str, UnjudgedKind] = {
    **{each.__name__: "could_not_judge" for each in (CouldNotJudge, Unfit, UnknownFigure)},
    NotAsked.__name__: "not_judged",
}
"""By the names of exceptions; any other one is `raised`."""

Done = tuple[Case | None, Sequence[CaseResult]]
_Reported = ReportCase[Question, RunToJudge, Mapping[str, str]]


class _Try(msgspec.Struct, frozen=True, kw_only=True):
    """A result, or the recorded run, with what judges it; there is no `output` where nothing is known."""

    question: Question
    outcome: CaseOutcome
    detail: str
    output: RunToJudge | None = None
    expected: RunToJudge | None = None
    evaluators: tuple[RunEvaluator, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.question.case_id} {self.question.attempt}"


@dataclass(repr=False)
class _Judge(Evaluator[Question, RunToJudge, Mapping[str, str]]):
    """One of ours, as `pydantic-evals` knows them. A model's own words are kept as a label."""

    judge: RunEvaluator

    def get_default_evaluation_name(self) -> str:
        return self.judge.evaluation_name

    def build_serialization_arguments(self) -> dict[str, Any]:
        return options_of(self.judge)

    async def evaluate(
        self, ctx: EvaluatorContext[Question, RunToJudge, Mapping[str, str]]
    ) -> dict[str, Any]:
        given = RunContext(
            inputs=ctx.inputs, output=ctx.output, expected_output=ctx.expected_output, metadata=ctx.metadata
        )
        found = await evaluated(self.judge, given)
        name = self.judge.evaluation_name
        reply = {_reply_label(name): found.reply} if found.reply else {}
        return {name: EvaluationReason(found.value, found.reason), **reply}


class Judging:
    """Judges by `evaluators`; those that need it are given the `profile` of the recorded replies, and `ask`.

    `at_once` bounds the tries that are judged at a time. A model judges recorded runs only where that is
    needed: to compare with them (`compare_recorded`), or with what people said of them.
    """

    def __init__(
        self,
        evaluators: Sequence[RunEvaluator],
        profile: RecordedProfile,
        ask: Ask | None = None,
        *,
        compare_recorded: bool = True,
        at_once: int = 8,
    ) -> None:
        self._profile = profile
        self._ask = ask
        self._evaluators = tuple(map(self._ready, evaluators))
        self._compare_recorded = compare_recorded
        self._at_once = at_once

    async def judge(self, done: Iterable[Done]) -> AsyncIterator[JudgedCase]:
        """Each case with its results, in order; so many in memory as a batch has. There is no case where its
        line is damaged.

        Raises UnfitSuite where a case has a check that is none.
        """
        iterator = iter(done)
        while batch := [(case, self._tries(case, results)) for case, results in islice(iterator, _BATCH)]:
            reported = await self._reported([each for _, tries in batch for each in tries if each.evaluators])
            for case, tries in batch:
                said = [] if case is None else [each.score for each in case.feedback]
                yield JudgedCase(
                    case_id=tries[0].question.case_id,
                    slices={} if case is None else case.slices,
                    feedback=sum(said) / len(said) if said else None,
                    tries=tuple(_judged(each, reported.get(each.name)) for each in tries),
                )

    def _tries(self, case: Case | None, results: Sequence[CaseResult]) -> list[_Try]:
        """The recorded run, where a result holds it, and each result; there is one at least."""
        if case is None:
            return [_try(_damaged(each), each, None, ()) for each in results]
        compared = next((each.compared for each in results if each.compared is not None), None)
        evaluators = (*self._evaluators, *map(self._ready, checks_of(case)))
        question = _question(case, () if compared is None else evaluators)
        if compared is None:
            return [_try(_attempt(question, each.attempt), each, None, evaluators) for each in results]
        before = RunToJudge(output=compared.before, figures=compared.recorded)
        was_completed = compared.recorded_end == "completed"
        if not was_completed:
            evaluators = tuple(each for each in evaluators if not each.compares)
        needs_model = self._compare_recorded or bool(case.feedback)
        recorded = _Try(
            question=question,
            outcome="completed" if was_completed else "failed",
            detail=compared.recorded_end,
            output=before,
            expected=before,
            evaluators=tuple(
                each for each in evaluators if was_completed and (needs_model or not is_model(each))
            ),
        )
        return [
            recorded,
            *(_try(_attempt(question, each.attempt), each, before, evaluators) for each in results),
        ]

    def _ready(self, made: RunEvaluator) -> RunEvaluator:
        if isinstance(made, OfProfile):
            made.profile = self._profile
        if isinstance(made, ModelJudge) and self._ask is not None:
            made.ask = self._ask
        return made

    async def _reported(self, tries: Sequence[_Try]) -> dict[str, _Reported]:
        """What `pydantic-evals` reports of each, by name."""
        outputs = {each.name: each.output for each in tries}
        dataset = Dataset[Question, RunToJudge, Mapping[str, str]](
            name="suite",
            cases=[
                EvaluatedCase(
                    name=each.name,
                    inputs=each.question,
                    metadata=each.question.slices,
                    expected_output=each.expected,
                    evaluators=tuple(map(_Judge, each.evaluators)),
                )
                for each in tries
            ],
        )

        async def output_of(question: Question) -> Any:
            return outputs[f"{question.case_id} {question.attempt}"]

        report = await dataset.evaluate(output_of, progress=False, max_concurrency=self._at_once)
        return {each.name: each for each in report.cases}


def checks_of(case: Case) -> list[RunEvaluator]:
    """The owner's expectations of this case: an evaluator's name and its options. Raises UnfitSuite."""
    made = []
    for name, options in case.checks.items():
        settings = options if isinstance(options, Mapping) else {"text": options}
        made.append(
            evaluator({"label": f"{CHECK}{name}", **settings, "name": name}, f"case {case.id}: checks")
        )
    return made


def is_model(made: RunEvaluator) -> bool:
    """Whether it asks a model, which costs."""
    return isinstance(made, ModelJudge)


def _damaged(result: CaseResult) -> Question:
    return Question(case_id=result.case_id, attempt=result.attempt, message="")


def _try(
    question: Question,
    result: CaseResult,
    expected: RunToJudge | None,
    evaluators: tuple[RunEvaluator, ...],
) -> _Try:
    """Only a run that completed is judged."""
    compared = result.compared
    output = None
    if compared is not None and compared.was_replayed:
        output = RunToJudge(output=compared.after, figures=compared.replayed)
    return _Try(
        question=question,
        outcome=result.outcome,
        detail=result.diverged_at or result.detail or "",
        output=output,
        expected=expected,
        evaluators=evaluators if output is not None and result.outcome == "completed" else (),
    )


def _question(case: Case, evaluators: Iterable[RunEvaluator]) -> Question:
    """Of the recorded run. What was said before is for models alone: it takes a fold of the events."""
    return Question(
        case_id=case.id,
        attempt=RECORDED,
        message=case.message,
        earlier=earlier_messages(conversation_of(case), case.id) if any(map(is_model, evaluators)) else (),
        passages=len(case.passages),
        slices=case.slices,
    )


def _attempt(question: Question, attempt: int) -> Question:
    return msgspec.structs.replace(question, attempt=attempt)


def _judged(tried: _Try, reported: _Reported | None) -> JudgedTry:
    scores, unjudged = [], []
    if tried.outcome in ("completed", "failed", "diverged"):
        completed = tried.outcome == "completed"
        reason = "" if completed else f"{tried.outcome}: {tried.detail}"
        scores.append(Score(evaluator=COMPLETED, value=float(completed), passed=completed, reason=reason))
    failures = [] if reported is None else reported.evaluator_failures
    for each in tried.evaluators if reported is not None else ():
        name = each.evaluation_name
        failure = next((found for found in failures if found.name == name), None)
        if failure is None and reported is not None:
            scores.append(_score(each, name, reported))
        elif failure is not None:
            unjudged.append(_unjudged(failure))
    return JudgedTry(
        attempt=tried.question.attempt,
        outcome=tried.outcome,
        detail=tried.detail,
        figures=None if tried.output is None else tried.output.figures,
        scores=tuple(scores),
        unjudged=tuple(unjudged),
    )


def _score(made: RunEvaluator, name: str, reported: _Reported) -> Score:
    found = reported.assertions.get(name) or reported.scores[name]
    value = float(found.value)
    label = reported.labels.get(_reply_label(name))
    return Score(
        evaluator=name,
        value=value,
        passed=value >= made.passes_from,
        reason=found.reason or "",
        reply=label.value if label is not None else "",
    )


def _reply_label(name: str) -> str:
    return f"{name}: reply"


def _unjudged(failure: EvaluatorFailure) -> Unjudged:
    kind = _KINDS.get(failure.error_type or "", "raised")
    detail = failure.error_message
    if kind != "raised":
        detail = detail.removeprefix(f"{failure.error_type}: ")
    return Unjudged(evaluator=failure.name, kind=kind, detail=detail[:1000])
