"""An agent's scores by day become a line for each evaluator and version."""

from console.pages.score_lines import ScoreLine, score_lines
from conversations.judged.run_scores import DayScores


def _day(day: str, version: int, evaluator: str, mean: float | None, judged: int, passed: int) -> DayScores:
    return DayScores(
        day=day, version=version, evaluator=evaluator, judged=judged, passed=passed, unjudged=1, mean=mean
    )


def test_each_evaluator_and_version_has_a_line_of_its_days() -> None:
    days = [
        _day("2026-11-27", 2, "polite", 0.5, 2, 1),
        _day("2026-11-26", 2, "polite", 1.0, 6, 6),
        _day("2026-11-26", 1, "polite", None, 0, 0),
        _day("2026-11-25", 1, "long", 0.0, 1, 0),
    ]
    assert score_lines(days) == [
        ScoreLine(evaluator="long", version=1, points="110,24.0", mean=0.0, judged=1, passed=0, unjudged=1),
        ScoreLine(
            evaluator="polite",
            version=2,
            points="120,0.0 130,12.0",
            mean=0.875,
            judged=8,
            passed=7,
            unjudged=2,
        ),
        ScoreLine(evaluator="polite", version=1, points="", mean=None, judged=0, passed=0, unjudged=1),
    ]
