"""What judging came to: a line of `judged.jsonl` for each case, with its recorded run and each try at it.

What could not be judged and what an evaluator raised have their place in it, next to the scores.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from evals.results import CaseOutcome
from experiments.comparison import RunFigures

RECORDED = 0
"""In place of the number of an attempt."""


UnjudgedKind = Literal["could_not_judge", "not_judged", "raised"]


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`value` is from 0 to 1. `reply`: the judge's own."""

    evaluator: str
    value: float
    passed: bool
    reason: str = ""
    reply: str = ""


class Unjudged(msgspec.Struct, frozen=True, kw_only=True):
    """`could_not_judge`: there is no verdict, such as a judge's nonsense. `not_judged`: its model was not
    asked, as the budget is spent. `raised`: the evaluator failed.
    """

    evaluator: str
    kind: UnjudgedKind
    detail: str


class JudgedTry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`attempt` RECORDED is the recorded run. One that did not complete has one score, which says that."""

    attempt: int
    outcome: CaseOutcome
    detail: str = ""
    figures: RunFigures | None = None
    scores: tuple[Score, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()

    def score(self, evaluator: str) -> Score | None:
        return next((each for each in self.scores if each.evaluator == evaluator), None)


class JudgedCase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`feedback` is the mean of what people said of the recorded reply, from -1 to 1."""

    case_id: str
    slices: Mapping[str, str] = {}
    feedback: float | None = None
    tries: tuple[JudgedTry, ...] = ()

    @property
    def recorded(self) -> JudgedTry | None:
        return next((each for each in self.tries if each.attempt == RECORDED), None)

    @property
    def again(self) -> tuple[JudgedTry, ...]:
        """The tries at it, without the recorded run."""
        return tuple(each for each in self.tries if each.attempt != RECORDED)
