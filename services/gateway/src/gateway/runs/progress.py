"""How much of a reply's text, and which of its tool calls, have become updates so far."""

import hashlib
from typing import Any

from contracts.values import ToolCall


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
        beginning = text[: self.length]
        if len(beginning) < self.length:
            return False
        return hashlib.sha256(beginning.encode()).hexdigest() == self.sha256


class ToolProgress:
    """The tool calls so far, in order, and their outputs.

    `owed`: calls that have returned, whose update follows when their output is known.
    """

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._ended: set[str] = set()
        self.owed: set[str] = set()
        self._returned: set[str] = set()

    def call(self, call_id: str, name: str, given: dict[str, Any]) -> bool:
        """Note a call; False if it was known."""
        if call_id in self._calls:
            return False
        self._calls[call_id] = ToolCall(name=name, input=given, output="")
        return True

    def ended(self, call_id: str) -> bool:
        """Note that a call has returned; False if that was known, or the call is not."""
        if call_id in self._ended or call_id not in self._calls:
            return False
        self._ended.add(call_id)
        self.owed.discard(call_id)
        return True

    def owe(self, call_id: str) -> bool:
        """Note that a call has returned with an output yet to be known; False if it ended, or is unknown."""
        if call_id in self._ended or call_id not in self._calls:
            return False
        self.owed.add(call_id)
        return True

    def returned(self, call_id: str, given: dict[str, Any], output: str) -> None:
        """Note what a call that is known was run with, and its output."""
        call = self._calls.get(call_id)
        if call is not None:
            self._calls[call_id] = ToolCall(name=call.name, input=given, output=output)
            self._returned.add(call_id)

    def __len__(self) -> int:
        return len(self._returned)

    def finished(self) -> tuple[ToolCall, ...]:
        """The calls that have returned, in the order in which they were made."""
        return tuple(call for call_id, call in self._calls.items() if call_id in self._returned)
