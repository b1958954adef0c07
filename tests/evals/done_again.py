"""Cases and what they came to when they were done again."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from contracts.replay_messages import AskedTool
from evals.cases import Case, Feedback, Origin
from evals.judging.evaluator_registry import evaluators_of
from evals.judging.judged_cases import JudgedCase
from evals.judging.judgement import Judging
from evals.judging.model_judges import Ask
from evals.judging.recorded_profile import RecordedReply, profile_of
from evals.results import CaseOutcome, CaseResult
from experiments.comparison import ComparedRun, RunFigures, RunOutput

Done = tuple[Case | None, tuple[CaseResult, ...]]


def call(name: str, number: int = 1, **arguments: Any) -> AskedTool:
    """Of a round."""
    return AskedTool(round=number, name=name, input=arguments)


def case(
    case_id: str = "c1",
    *,
    slices: Mapping[str, str] | None = None,
    feedback: Sequence[float] = (),
    checks: Mapping[str, Any] | None = None,
    passages: int = 0,
) -> Case:
    return Case(
        id=case_id,
        origin=Origin(account_id="a", conversation_id="v", trace_id=case_id, version=3, hash="00"),
        agent_id="g",
        agent_version=1,
        message="Where is my order?",
        events=(),
        passages={str(each): "text" for each in range(passages)},
        slices=slices or {},
        feedback=tuple(Feedback(score=each) for each in feedback),
        checks=checks or {},
    )


def result(
    case_id: str = "c1",
    after: str = "It was sent.",
    before: str = "It was sent.",
    *,
    attempt: int = 1,
    outcome: CaseOutcome = "completed",
    calls: Sequence[AskedTool] = (),
    recorded_calls: Sequence[AskedTool] | None = None,
    recorded_end: Any = "completed",
    cost: float | None = 2.0,
) -> CaseResult:
    """`recorded_calls` are as `calls` where they are not given."""
    figures = RunFigures(model="m", rounds=1, calls=0, tokens=100, cost=1.0, seconds=2.0)
    before_calls = calls if recorded_calls is None else recorded_calls
    is_known = outcome in ("completed", "failed", "diverged")
    compared = ComparedRun(
        conversation_id="v",
        trace_id=case_id,
        message="Where is my order?",
        recorded_end=recorded_end,
        outcome="completed" if outcome == "completed" else "failed",
        code=None,
        detail=None,
        same_tools=True,
        same_answer=after == before,
        alike=1.0,
        missed=(),
        sources_missed=False,
        recorded=figures,
        replayed=RunFigures(model="n", rounds=1, calls=0, tokens=300, cost=cost, seconds=3.0),
        before=RunOutput(content=before, calls=tuple(before_calls)),
        after=RunOutput(content=after, calls=tuple(calls)),
    )
    return CaseResult(
        case_id=case_id, attempt=attempt, outcome=outcome, compared=compared if is_known else None
    )


async def judged(
    done: Iterable[Done],
    *evaluators: Mapping[str, Any],
    ask: Ask | None = None,
    compare_recorded: bool = True,
) -> list[JudgedCase]:
    """By these evaluators, or by the default ones."""
    done = list(done)
    profile = profile_of(
        RecordedReply(each.id, each.slices, results[0].compared.before.content)
        for each, results in done
        if each is not None and results[0].compared is not None
    )
    judging = Judging(evaluators_of(evaluators), profile, ask, compare_recorded=compare_recorded)
    found: AsyncIterator[JudgedCase] = judging.judge(done)
    return [each async for each in found]
