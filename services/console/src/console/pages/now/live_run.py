"""A run as the page shows it: what the read models know, and what its frames have said since. Pure."""

from typing import Literal

import msgspec

from contracts import frames
from conversations.queries.under_way import OpenRun

Kind = Literal["running", "waiting", "done", "failed", "cancelled"]
_WORDS = 160
_CHARACTERS_A_TOKEN = 4


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table. `seconds` is how long the run was open at the time of the look.

    `tokens` is an estimate by the length of the reply: models count theirs at the end.
    """

    trace_id: str
    conversation_id: str
    agent: str
    account: str
    kind: Kind
    stage: str
    attempts: int
    seconds: float
    tokens: int
    words: str


class LiveRun:
    """Takes frames in the order they come in."""

    def __init__(self, run: OpenRun) -> None:
        self.run = run
        self.is_over = False
        self.changed = False
        self._characters = 0
        self._words = ""
        self._seen: tuple[Kind, str] | None = None

    def look(self, run: OpenRun) -> None:
        """What the read models have now; frames are ahead of them."""
        if run.rounds != self.run.rounds or run.waits_for != self.run.waits_for or run.tool != self.run.tool:
            self.changed = True
        self.run = run

    def take(self, frame: frames.Frame) -> None:
        self.changed = True
        match frame:
            case frames.Delta(round=number, text=text, offset=offset):
                self._characters = offset + len(text)
                self._words = (self._words + text)[-_WORDS:]
                self._seen = ("running", f"model {number}")
            case frames.ToolCalled(name=name):
                self._seen = ("running", f"tool {name}")
            case frames.ToolReturned() | frames.Resumed() | frames.Accepted():
                self._seen = ("running", "model")
            case frames.Paused():
                self._seen = None
            case frames.Completed():
                self._seen, self.is_over = ("done", "completed"), True
            case frames.Failed(code=code):
                kind: Kind = "cancelled" if code == "cancelled" else "failed"
                self._seen, self.is_over = (kind, code), True
            case _:
                self.changed = False

    def row(self, agent: str, account: str, seconds: float) -> RunRow:
        kind, stage = self._stage()
        return RunRow(
            trace_id=self.run.trace_id,
            conversation_id=self.run.conversation_id,
            agent=agent,
            account=account,
            kind=kind,
            stage=stage,
            attempts=self.run.attempts,
            seconds=seconds,
            tokens=self._characters // _CHARACTERS_A_TOKEN,
            words=" ".join(self._words.split()),
        )

    def _stage(self) -> tuple[Kind, str]:
        if self.run.waits_for is not None and not self.is_over:
            return "waiting", f"approval {self.run.waits_for}"
        if self._seen is not None:
            return self._seen
        if self.run.tool is not None:
            return "running", f"tool {self.run.tool}"
        return "running", f"model {self.run.rounds + 1}" if self.run.model else "starts"
