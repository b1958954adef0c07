"""What becomes of tool calls that the record of a run lacks, by the choice of the question (`Unrecorded`)."""

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from contracts import wire
from contracts.replay_messages import AskedTool, Divergence, Unrecorded
from contracts.values import ToolSpec
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Call

_COMPARED_CHARACTERS = 2_000
"""Of an input, where the nearest one is looked for: comparing takes the square of their number."""


class Diverged(Exception):  # noqa: N818 - an outcome, named as such
    """The rerun ends here."""

    def __init__(self, divergence: Divergence) -> None:
        call = divergence.call
        given = wire.encode_canonical(call.input).decode()
        super().__init__(f"Round {call.round} calls {call.name} {given}, which was never recorded.")
        self.divergence = divergence


class ToolAnswer(Protocol):
    """What a call came to, in fields that a recorded `Call` has too."""

    @property
    def output(self) -> str | None:
        """A text that parses as JSON."""

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""

    @property
    def ms(self) -> int:
        """How long it took."""


class GivenAnswer(msgspec.Struct, frozen=True):
    """A `ToolAnswer` that no record has."""

    output: str
    is_error: bool = False
    ms: int = 0


class ToolActor(Protocol):
    """Answers calls that were never recorded: `simulated_tool.SimulatedTools`, `live_tools.LiveTools`."""

    async def answer(self, call: Call, spec: ToolSpec) -> ToolAnswer:
        """What the call comes to. Raises ModelFailure."""


class UnrecordedCalls:
    """Answers the calls that a record lacks, and knows afterwards what became of each.

    With `fail` the model gets an error. Else the `actor` answers where `unrecorded` lets it; where it does
    not, the rerun ends.
    """

    def __init__(
        self, unrecorded: Unrecorded, harmless: Sequence[str] = (), actor: ToolActor | None = None
    ) -> None:
        self._unrecorded = unrecorded
        self._harmless = frozenset(harmless)
        self._actor = actor
        self._missed: set[str] = set()
        self._acted: set[str] = set()

    async def answered(
        self,
        round_number: int,
        calls: Sequence[Call],
        offered: Mapping[str, ToolSpec],
        left: Sequence[AskedTool],
    ) -> Sequence[ToolAnswer]:
        """What each came to, in their order; `left` is what the record holds and no call has asked for.

        Raises Diverged, ModelFailure.
        """
        if self._unrecorded == "fail":
            self._missed.update(call.call_id for call in calls)
            return [_missing(call) for call in calls]
        for call in calls:
            if not self._may_act(call):
                self._missed.add(call.call_id)
                asked = AskedTool(round=round_number, name=call.name, input=call.input, missed=True)
                raise Diverged(Divergence(call=asked, nearest=nearest(asked, left)))
        assert self._actor is not None, "who may simulate or call has what does it"
        self._acted.update(call.call_id for call in calls)
        actor = self._actor
        return await asyncio.gather(*(actor.answer(call, offered[call.name]) for call in calls))

    def asked(self, run: Run) -> tuple[AskedTool, ...]:
        """Every call of the run, with what became of it."""
        return tuple(
            AskedTool(
                round=each.number,
                name=call.name,
                input=call.input,
                missed=call.call_id in self._missed,
                simulated=self._unrecorded == "simulate" and call.call_id in self._acted,
                live=self._unrecorded == "live" and call.call_id in self._acted,
            )
            for each in run.rounds
            for call in each.calls
        )

    def _may_act(self, call: Call) -> bool:
        return self._unrecorded == "simulate" or (self._unrecorded == "live" and call.name in self._harmless)


def nearest(asked: AskedTool, held: Sequence[AskedTool]) -> AskedTool | None:
    """The call that is most like it: of the same tool where there is one, then by the text of the input."""

    def likeness(other: AskedTool) -> tuple[bool, float]:
        inputs = difflib.SequenceMatcher(None, _text(asked), _text(other), autojunk=False)
        return other.name == asked.name, inputs.ratio()

    return max(held, key=likeness, default=None)


def _text(call: AskedTool) -> str:
    return wire.encode_canonical(call.input).decode()[:_COMPARED_CHARACTERS]


def _missing(call: Call) -> GivenAnswer:
    problem = f"This is a replay: its record holds no result of {call.name} with this input."
    return GivenAnswer(wire.error_output(problem), is_error=True)
