"""The order of calls and what they returned, as the canonical stream has it. Pure.

Live, outputs come late, out of the log, and in the order in which tools returned.
"""

from collections.abc import Iterable

from contracts.updates import Broken, Finished, ToolReturned, ToolStarted, Update


class CallOrder:
    """What a round's tools returned follows in the order of its calls, and all else waits after it."""

    def __init__(self) -> None:
        self._open: dict[str, ToolReturned | None] = {}
        self._held: list[Update] = []

    def add(self, updates: Iterable[Update]) -> list[Update]:
        """What can be told now, of these and of those that were held."""
        told: list[Update] = []
        for update in updates:
            self._add(update, told)
        return told

    def _add(self, update: Update, told: list[Update]) -> None:
        match update:
            case ToolReturned() if update.call_id in self._open:
                self._open[update.call_id] = update
                self._release(told)
            case Finished() | Broken():
                self._end(told)
                told.append(update)
            case ToolStarted() if not self._held:
                self._open[update.call_id] = None
                told.append(update)
            case _ if self._open:
                self._held.append(update)
            case _:
                told.append(update)

    def _release(self, told: list[Update]) -> None:
        while self._open and (returned := next(iter(self._open.values()))) is not None:
            del self._open[returned.call_id]
            told.append(returned)
        if not self._open and self._held:
            held, self._held = self._held, []
            told += self.add(held)

    def _end(self, told: list[Update]) -> None:
        """Calls that will not return hold up nothing."""
        while self._open:
            told += (returned for returned in self._open.values() if returned is not None)
            self._open.clear()
            held, self._held = self._held, []
            told += self.add(held)
