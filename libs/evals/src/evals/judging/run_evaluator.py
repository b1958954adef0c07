"""What an evaluator is: one question about a run, answered from 0 to 1.

Suites are judged by `pydantic-evals`, which has ours as its own (`judgement`). It takes seconds and 40 MB to
import, so nothing here does: an agent's evaluators are checked, and live runs judged, without it.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import msgspec

from contracts.values import ShownMessage
from experiments.comparison import RunFigures, RunOutput

MOST_REASON = 500


class RunToJudge(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to: its text and tool calls, and what it took."""

    output: RunOutput
    figures: RunFigures

    @property
    def content(self) -> str:
        return self.output.content


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was asked, after which `earlier` messages. `passages` is the number of sources that it was
    given; `attempt` is of the result that is judged.
    """

    case_id: str
    attempt: int
    message: str
    earlier: tuple[ShownMessage, ...] = ()
    passages: int = 0
    slices: Mapping[str, str] = {}


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluator is given. `expected_output` is the recorded run, where there is one to compare with;
    `metadata` are the slices.
    """

    inputs: Question
    output: RunToJudge
    expected_output: RunToJudge | None = None
    metadata: Mapping[str, str] | None = None


class EvaluationReason(msgspec.Struct, frozen=True):
    """A verdict, or a value from 0 to 1, and why. `reply` is a model's own words."""

    value: bool | float
    reason: str | None = None
    reply: str = ""


@dataclass(repr=False, kw_only=True)
class RunEvaluator:
    """Its fields are its options in `suite.yaml`.

    A number passes from `passes_from` on. `label` is its name in reports, where several are of one kind.
    """

    label: str | None = None

    name: ClassVar[str]
    passes_from: ClassVar[float] = 1.0
    alone: ClassVar[str] = ""
    """The option with which it needs no recorded run, where it has one."""
    needs_prices: ClassVar[bool] = False
    tolerated_drop: ClassVar[float] = 0.05
    """So much its mean may be lower than before, where the suite has no threshold."""

    @property
    def compares(self) -> bool:
        """Whether it compares with the recorded run, which then passes by definition."""
        return False

    @property
    def evaluation_name(self) -> str:
        return self.label or self.name

    def evaluate(self, ctx: RunContext) -> EvaluationReason | Awaitable[EvaluationReason]:
        raise NotImplementedError


async def evaluated(evaluator: RunEvaluator, ctx: RunContext) -> EvaluationReason:
    """What it says; raises what it raises."""
    found = evaluator.evaluate(ctx)
    return found if isinstance(found, EvaluationReason) else await found


def recorded(ctx: RunContext) -> RunToJudge:
    """The recorded run, which every case has; evaluators of live runs do not compare."""
    assert ctx.expected_output is not None
    return ctx.expected_output


def passed_if(condition: bool, reason: str = "") -> EvaluationReason:
    """`reason` is for what did not pass."""
    return EvaluationReason(condition, None if condition else reason[:MOST_REASON])


def shown(text: str, most: int = 80) -> str:
    """A text as a part of a reason."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def option_names(kind: type[RunEvaluator]) -> list[str]:
    return [each.name for each in fields(kind) if each.init]


def options_of(evaluator: RunEvaluator) -> dict[str, Any]:
    """Those that were set, for a report."""
    return {name: getattr(evaluator, name) for name in option_names(type(evaluator))}
