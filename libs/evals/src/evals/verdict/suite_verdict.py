"""The verdict on a suite's judged results, by its own thresholds and its own baseline."""

from pathlib import Path

from evals.judging.evaluator_registry import evaluators_of
from evals.judging.judged_cases import JudgedCase
from evals.judging.judgement import is_model
from evals.judging.suite_judging import judged_file, read_judged
from evals.suite import Suite
from evals.verdict.verdict import SuiteVerdict, thresholds_of, verdict


def verdict_on(suite: Suite, results: Path) -> tuple[list[JudgedCase], SuiteVerdict]:
    """The judged cases, and what follows of them. Raises UnfitSuite."""
    settings = suite.settings
    evaluators = evaluators_of(settings.evaluators)
    thresholds = thresholds_of(settings.thresholds, evaluators)
    cases = read_judged(judged_file(results))
    baseline = None
    if settings.baseline is not None:
        baseline = {each.case_id: each for each in read_judged(suite.folder / settings.baseline)}
    asking = [each.evaluation_name for each in evaluators if is_model(each)]
    return cases, verdict(thresholds, cases, baseline, asking=asking)
