"""The worst cases of a verdict, with what was said before and after."""

from collections.abc import Callable, Sequence

import msgspec

from evals.results import CaseResult
from evals.verdict.verdict import CaseChange, SuiteVerdict
from experiments.comparison import ComparedRun


class WorstCase(msgspec.Struct, frozen=True, kw_only=True):
    """`compared` is None where nothing is known of it any more."""

    change: CaseChange
    compared: ComparedRun | None


def worst_cases(
    verdict: SuiteVerdict, results_of: Callable[[str], Sequence[CaseResult]], most: int
) -> list[WorstCase]:
    """Of each the try that is least like the recorded run."""
    return [
        WorstCase(
            change=change,
            compared=min(
                (each.compared for each in results_of(change.case_id) if each.compared is not None),
                key=lambda compared: (compared.outcome == "completed", compared.alike),
                default=None,
            ),
        )
        for change in verdict.changes[:most]
    ]
