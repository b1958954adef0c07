"""What of a run is behind one of its waits, for a reader who was told what is before it. Pure."""

from collections.abc import Iterable

from contracts.updates import NextRound, Sources, Text, ToolReturned, ToolStarted, Update
from conversations.aggregate.conversation import Run


class Behind:
    """Passes on what is behind the wait in round `number` of a run, of updates from its beginning.

    `calls`: those of that round that a person was asked about, by their ids, as they were then decided.
    """

    def __init__(self, run: Run, number: int) -> None:
        had = [each for each in run.rounds if each.number <= number]
        self.number = number
        self.calls = {call.call_id: call for call in had[-1].calls if call.approval is not None}
        self._had = {call.call_id for each in had for call in each.calls}
        self._text = sum(len(each.text) for each in had)

    def rest(self, updates: Iterable[Update]) -> list[Update]:
        """What of these is behind it."""
        return [rest for update in updates if (rest := self._rest(update)) is not None]

    def _rest(self, update: Update) -> Update | None:
        match update:
            case Text():
                text, self._text = update.text[self._text :], max(0, self._text - len(update.text))
                return Text(text) if text else None
            case Sources():
                return None
            case ToolStarted() if update.call_id in self._had:
                return None
            case ToolReturned() if update.call_id in self._had - self.calls.keys():
                return None
            case NextRound() if update.number <= self.number:
                return None
            case _:
                return update
