"""Evaluators of what a run took: cost, seconds, tokens; and of whether it completed."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec

from evals.judging.run_evaluator import (
    EvaluationReason,
    RunContext,
    RunEvaluator,
    RunToJudge,
    passed_if,
    recorded,
)

_Amount = Annotated[float, msgspec.Meta(ge=0)]


class UnknownFigure(Exception):  # noqa: N818 - a state of what is judged
    """No price is known of the run's model, so its cost is not known either."""


@dataclass(repr=False, kw_only=True)
class _Figure(RunEvaluator):
    at_most: _Amount | None = None
    at_most_times: _Amount | None = None

    name: ClassVar[str] = ""
    alone: ClassVar[str] = "at_most"

    def __post_init__(self) -> None:
        if self.at_most is self.at_most_times:
            raise ValueError("Expected `at_most` or `at_most_times`")

    @property
    def compares(self) -> bool:
        return self.at_most_times is not None

    def figure(self, of: RunToJudge) -> float:
        raise NotImplementedError

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        found = self.figure(ctx.output)
        bounds = [] if self.at_most is None else [self.at_most]
        if self.at_most_times is not None:
            bounds.append(self.at_most_times * self.figure(recorded(ctx)))
        return passed_if(found <= min(bounds), f"{found:,.6g}, more than {min(bounds):,.6g}")


@dataclass(repr=False, kw_only=True)
class Cost(_Figure):
    """In the currency of the price table: at most so much, or so many times what the recorded run cost."""

    name: ClassVar[str] = "cost"
    needs_prices: ClassVar[bool] = True

    def figure(self, of: RunToJudge) -> float:
        if of.figures.cost is None:
            raise UnknownFigure(f"no price is known of {of.figures.model}")
        return of.figures.cost


@dataclass(repr=False, kw_only=True)
class Seconds(_Figure):
    """Without tools: at most so many, or so many times those of the recorded run."""

    name: ClassVar[str] = "seconds"

    def figure(self, of: RunToJudge) -> float:
        return of.figures.seconds


@dataclass(repr=False, kw_only=True)
class TokensUsed(_Figure):
    """At most so many, or so many times those of the recorded run."""

    name: ClassVar[str] = "tokens"

    def figure(self, of: RunToJudge) -> float:
        return of.figures.tokens


KINDS: tuple[type[RunEvaluator], ...] = (Cost, Seconds, TokensUsed)
