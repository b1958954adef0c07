"""An agent's scores of live runs as lines: the means of days, by evaluator and version."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

import msgspec

from conversations.judged.run_scores import DayScores

DAYS = 14
WIDTH, HEIGHT = 10 * (DAYS - 1), 24
"""Of a line's picture: 10 for each day; the top is a mean of 1."""


class ScoreLine(msgspec.Struct, frozen=True, kw_only=True):
    """`points` are places of an SVG polyline, the days in their order; `mean` is over all of them."""

    evaluator: str
    version: int
    points: str
    mean: float | None
    judged: int
    passed: int
    unjudged: int


def score_lines(days: Sequence[DayScores]) -> list[ScoreLine]:
    """By evaluator, the newest version first; all lines end at the newest day."""
    newest = max((date.fromisoformat(each.day) for each in days), default=date.min)
    found: dict[tuple[str, int], list[DayScores]] = defaultdict(list)
    for each in days:
        found[each.evaluator, -each.version].append(each)
    return [_line(found[key], newest) for key in sorted(found)]


def _line(days: list[DayScores], newest: date) -> ScoreLine:
    points = [
        (max(0, WIDTH - 10 * (newest - date.fromisoformat(each.day)).days), each.mean)
        for each in sorted(days, key=lambda each: each.day)
        if each.mean is not None
    ]
    judged = sum(each.judged for each in days)
    return ScoreLine(
        evaluator=days[0].evaluator,
        version=days[0].version,
        points=" ".join(f"{place},{(1 - mean) * HEIGHT:.1f}" for place, mean in points),
        mean=sum((each.mean or 0) * each.judged for each in days) / judged if judged else None,
        judged=judged,
        passed=sum(each.passed for each in days),
        unjudged=sum(each.unjudged for each in days),
    )
