"""The order of calls and what they returned, as the canonical stream has it. Pure.

In a live run outputs come late, out of the log, and in the order in which tools returned.
"""

from collections.abc import Iterable

from contracts.updates import Broken, Finished, ToolEnded, ToolStarted, Update


class CallOrder:
    """What a round's tools returned follows in the order of its calls, and all else waits after it."""

    def __init__(self) -> None:
        self._open: dict[str, ToolEnded | None] = {}
        self._held: list[Update] = []

    def add(self, updates: Iterable[Update]) -> list[Update]:
        """Those that are due now, of these and of the held ones."""
        due: list[Update] = []
        for update in updates:
            self._add(update, due)
        return due

    def _add(self, update: Update, due: list[Update]) -> None:
        match update:
            case ToolEnded() if update.call_id in self._open:
                self._open[update.call_id] = update
                self._release(due)
            case Finished() | Broken():
                self._end(due)
                due.append(update)
            case ToolStarted() if not self._held:
                self._open[update.call_id] = None
                due.append(update)
            case _ if self._open:
                self._held.append(update)
            case _:
                due.append(update)

    def _release(self, due: list[Update]) -> None:
        while self._open and (returned := next(iter(self._open.values()))) is not None:
            del self._open[returned.call_id]
            due.append(returned)
        if not self._open and self._held:
            held, self._held = self._held, []
            due += self.add(held)

    def _end(self, due: list[Update]) -> None:
        """Calls that will not return delay nothing."""
        while self._open:
            due += (returned for returned in self._open.values() if returned is not None)
            self._open.clear()
            held, self._held = self._held, []
            due += self.add(held)
