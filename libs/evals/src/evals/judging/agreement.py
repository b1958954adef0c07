"""What a judge is worth: how far its verdicts agree with what people said of the same replies."""

from collections.abc import Iterable

import msgspec

from evals.judging.judged_cases import JudgedCase


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Of one evaluator with people's feedback, over `count` recorded runs that both have judged.

    `kappa` (Cohen's) is 1 for full agreement and 0 for that of chance. None: it is not defined, as both gave
    the same verdict on all.
    """

    evaluator: str
    count: int
    agreeing: int
    kappa: float | None

    @property
    def described(self) -> str:
        """What follows the evaluator's name in a report."""
        kappa = "not defined" if self.kappa is None else f"{self.kappa:.2f}"
        return (
            f"agrees with people's feedback on {self.agreeing:,} of {self.count:,} recorded runs "
            f"(Cohen's κ {kappa})"
        )


def agreement(evaluator: str, cases: Iterable[JudgedCase]) -> Agreement:
    """By feedback above and below 0; a score of 0 says neither."""
    pairs = [
        (score.passed, each.feedback > 0)
        for each in cases
        if each.feedback
        and each.recorded is not None
        and (score := each.recorded.score(evaluator)) is not None
    ]
    count = len(pairs)
    agreeing = sum(judge == people for judge, people in pairs)
    return Agreement(evaluator=evaluator, count=count, agreeing=agreeing, kappa=_kappa(pairs))


def _kappa(pairs: list[tuple[bool, bool]]) -> float | None:
    """(observed - expected) / (1 - expected) agreement; expected: of two who judge independently, each with
    its own share of passes.
    """
    if not pairs:
        return None
    count = len(pairs)
    by_judge, by_people = (sum(side) / count for side in zip(*pairs, strict=True))
    observed = sum(judge == people for judge, people in pairs) / count
    expected = by_judge * by_people + (1 - by_judge) * (1 - by_people)
    return None if expected >= 1 else (observed - expected) / (1 - expected)
