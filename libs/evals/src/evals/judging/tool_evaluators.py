"""The evaluator of a run's tool calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from contracts import wire
from contracts.replay_messages import AskedTool
from evals.judging.run_evaluator import EvaluationReason, RunContext, RunEvaluator, recorded
from evals.judging.shared_words import overlap
from experiments.comparison import call_key, call_line

_ALIKE = 0.5
"""The share of words that texts of several words have in common, to count as the same argument."""

Matches = Callable[[AskedTool, AskedTool], bool]


class ExpectedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call with this name and at least these arguments."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: dict[str, Any] = {}


@dataclass(repr=False, kw_only=True)
class CalledTools(RunEvaluator):
    """The run called the tools that it should, and no other.

    `recorded`: "equal", the recorded calls and no more; "subset", those at least; "ignored". `arguments`:
    "exact"; "alike", where texts of several words need to share half of them; "ignored". `ordered`: the order
    counts too; calls of one round have none. `expected` are calls that every run makes, `forbidden` names of
    tools that none calls.

    Its value is the share of calls that are as they should be, and 0 with a forbidden one.
    """

    recorded: Literal["equal", "subset", "ignored"] = "equal"
    arguments: Literal["exact", "alike", "ignored"] = "alike"
    ordered: bool = False
    expected: tuple[ExpectedCall, ...] = field(default=())
    forbidden: tuple[str, ...] = field(default=())

    name: ClassVar[str] = "tool_calls"
    alone: ClassVar[str] = "recorded: ignored"

    @property
    def compares(self) -> bool:
        return self.recorded != "ignored"

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        made = ctx.output.output.calls
        wrong = [call_line(each) for each in made if each.name in self.forbidden]
        if wrong:
            return EvaluationReason(0.0, f"forbidden: {wrong[0]}")
        missing = [each for each in self.expected if not any(_fits(each, call) for call in made)]
        if missing:
            return EvaluationReason(0.0, f"no call of {missing[0].name} with {missing[0].arguments}")
        if self.recorded == "ignored":
            return EvaluationReason(1.0)
        return self._compared(recorded(ctx).output.calls, made)

    def _compared(self, before: Sequence[AskedTool], made: Sequence[AskedTool]) -> EvaluationReason:
        found = (self._in_order if self.ordered else self._in_rounds)(before, made)
        lost = [each for each, other in zip(before, found, strict=True) if other is None]
        taken = {id(each) for each in found if each is not None}
        more = [] if self.recorded == "subset" else [each for each in made if id(each) not in taken]
        if not lost and not more:
            return EvaluationReason(1.0)
        share = 2 * len(taken) / (len(before) + len(taken) + len(more))
        lines = [f"without {call_line(each)}" for each in lost] + [f"also {call_line(each)}" for each in more]
        return EvaluationReason(share, "; ".join(lines)[:500])

    def _in_rounds(self, before: Sequence[AskedTool], made: Sequence[AskedTool]) -> list[AskedTool | None]:
        """For each recorded call one that was made, or None. A call may come in another round."""
        left = list(made)
        found: list[AskedTool | None] = [None] * len(before)
        for is_match in (_exactly, self._is_same):  # so that no call takes what fits another one better
            for place, call in enumerate(before):
                match = next((each for each in left if found[place] is None and is_match(call, each)), None)
                if match is not None:
                    found[place] = match
                    left = [each for each in left if each is not match]
        return found

    def _in_order(self, before: Sequence[AskedTool], made: Sequence[AskedTool]) -> list[AskedTool | None]:
        """The same, of the longest sequence that both have; calls of a round are sorted first."""
        one, other = sorted(before, key=call_key), sorted(made, key=call_key)
        lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
        for i in reversed(range(len(one))):
            for j in reversed(range(len(other))):
                same = self._is_same(one[i], other[j])
                lengths[i][j] = (
                    lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
                )
        pairs: dict[int, AskedTool] = {}
        i = j = 0
        while i < len(one) and j < len(other):
            if self._is_same(one[i], other[j]):
                pairs[id(one[i])] = other[j]
                i, j = i + 1, j + 1
            elif lengths[i + 1][j] >= lengths[i][j + 1]:
                i += 1
            else:
                j += 1
        return [pairs.get(id(each)) for each in before]

    def _is_same(self, one: AskedTool, other: AskedTool) -> bool:
        if one.name != other.name:
            return False
        match self.arguments:
            case "ignored":
                return True
            case "exact":
                return _exactly(one, other)
            case "alike":
                return are_alike(one.input, other.input)


def are_alike(one: Any, other: Any) -> bool:
    """Equal JSON, but for texts of several words, of which half is the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_alike, one, other))
    if isinstance(one, str) and isinstance(other, str) and " " in one.strip() and other.strip():
        return overlap(one, other) >= _ALIKE
    return wire.encode_canonical(one) == wire.encode_canonical(other)


def _exactly(one: AskedTool, other: AskedTool) -> bool:
    return one.name == other.name and wire.encode_canonical(one.input) == wire.encode_canonical(other.input)


def _fits(expected: ExpectedCall, call: AskedTool) -> bool:
    return expected.name == call.name and all(
        name in call.input and wire.encode_canonical(call.input[name]) == wire.encode_canonical(value)
        for name, value in expected.arguments.items()
    )


KINDS: tuple[type[RunEvaluator], ...] = (CalledTools,)
