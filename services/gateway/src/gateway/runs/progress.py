"""The updates of a run that were sent so far, so that each is sent once. Pure."""

import hashlib

from contracts.updates import NextRound, RetrievedSources, Started, Text, ToolEnded, ToolStarted, Update


class TextProgress:
    """The text so far, as its length in code points and its SHA-256: the text itself is not kept."""

    def __init__(self) -> None:
        self.length = 0
        self._digest = hashlib.sha256()

    def add(self, text: str) -> None:
        self.length += len(text)
        self._digest.update(text.encode())

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def begins(self, text: str) -> bool:
        """Return True if `text` begins with the text so far."""
        beginning = text[: self.length]
        if len(beginning) < self.length:
            return False
        return hashlib.sha256(beginning.encode()).hexdigest() == self.sha256


class SentUpdates:
    """What was sent of a run. With `needs_outputs` the end of a tool call is sent with its output alone.

    `owed`: calls that have returned, whose end is sent once their output is known.
    """

    def __init__(self, *, needs_outputs: bool) -> None:
        self.started = False
        self.text = TextProgress()
        self.round = 1
        self.owed: set[str] = set()
        self._needs_outputs = needs_outputs
        self._has_sources = False
        self._called: set[str] = set()
        self._ended: set[str] = set()

    def add(self, update: Update) -> bool:
        """Note an update. Return False for one that was sent, or that cannot be sent."""
        match update:
            case Text():
                self.text.add(update.text)
            case Started():
                is_new, self.started = not self.started, True
                return is_new
            case RetrievedSources():
                is_new = not self._has_sources and self.text.length == 0
                self._has_sources = self._has_sources or is_new
                return is_new
            case NextRound():
                is_new, self.round = update.number > self.round, max(update.number, self.round)
                return is_new
            case ToolStarted():
                is_new = update.call_id not in self._called
                self._called.add(update.call_id)
                return is_new
            case ToolEnded():
                return self._end_call(update)
            case _:
                pass
        return True

    def _end_call(self, update: ToolEnded) -> bool:
        if update.call_id in self._ended or update.call_id not in self._called:
            return False
        if update.output is None and self._needs_outputs:
            self.owed.add(update.call_id)
            return False
        self._ended.add(update.call_id)
        self.owed.discard(update.call_id)
        return True
