"""What a run has cost next to what its log says: the model's round that is under way."""

from contracts.values import Usage
from conversations.aggregate.conversation import Run
from orchestrator.models import Meter


class RoundCost:
    """Counts one round at a time."""

    def __init__(self) -> None:
        self._round = 0
        self._meter = Meter()

    def begin(self, number: int) -> Meter:
        """A meter for the calls of this round; it has the cost of those before that came to nothing."""
        if number != self._round:
            self._round, self._meter = number, Meter()
        return self._meter

    def recorded(self) -> None:
        """The log has the cost so far, though not the round."""
        self._meter = Meter()

    def unrecorded(self, run: Run) -> Usage:
        """What is not in the log yet; `run` is the run as the log has it."""
        recorded = any(each.number == self._round and each.blocks is not None for each in run.rounds)
        return Usage() if recorded else self._meter.usage
