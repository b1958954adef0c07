"""Track how far a view of a run is: its phase, its place in the frames, what was sent. Pure."""

import enum
import hashlib
from collections.abc import Iterable

import msgspec

from agentchat.contracts import frames
from agentchat.contracts.updates import (
    Broken,
    Finished,
    NextRound,
    ReasoningUpdate,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    Update,
    WarningUpdate,
)
from agentchat.contracts.values import RunWarning, Source


class Phase(enum.Enum):
    """The phase of a run.

    QUEUED: the request waits for its conversation. REFUSED: a worker refused the request, and the run never
    starts. PAUSED: the attempt has ended to wait for a person. ENDED: the last update was sent.
    """

    NEW = enum.auto()
    QUEUED = enum.auto()
    RUNNING = enum.auto()
    PAUSED = enum.auto()
    REFUSED = enum.auto()
    ENDED = enum.auto()


class FramePosition(msgspec.Struct):
    """The position of a view in the frames of a run's attempts.

    held: Frames of the attempt after a gap, by their numbers.
    placed_attempt: The attempt whose offsets count: its beginning is known.
    misses_text: Text was missed, and what follows it waits in `later` until the log, the offset of a later
        piece, or the saved message shows where it belongs.
    """

    attempt: int = 0
    next_seq: int = 1
    held: dict[int, frames.Frame] = {}
    placed_attempt: int = 1
    misses_text: bool = False
    later: list[frames.DeltaFrame] = []

    def begin_attempt(self, attempt: int) -> None:
        """Forget the frames of the attempt before."""
        self.attempt, self.next_seq = attempt, 1
        self.held.clear()
        self.later.clear()

    def is_after(self, other: "FramePosition") -> bool:
        """Return True if this position is after another one."""
        return (self.attempt, self.next_seq) > (other.attempt, other.next_seq)

    def list_held_after(self, other: "FramePosition") -> dict[int, frames.Frame]:
        """Return the held frames that continue another position."""
        if self.attempt != other.attempt:
            return {}
        return {seq: frame for seq, frame in self.held.items() if seq >= other.next_seq}


class TextProgress:
    """The text so far, as its length in code points and its SHA-256: the text itself is not kept."""

    def __init__(self) -> None:
        self.length = 0
        self._digest = hashlib.sha256()

    def add(self, text: str) -> None:
        """Add a piece of text."""
        self.length += len(text)
        self._digest.update(text.encode())

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text so far."""
        return self._digest.hexdigest()

    def is_beginning_of(self, text: str) -> bool:
        """Return True if `text` begins with the text so far."""
        beginning = text[: self.length]
        if len(beginning) < self.length:
            return False
        return hashlib.sha256(beginning.encode()).hexdigest() == self.sha256


class ReasoningProgress:
    """The reasoning that was sent of the last round that has any, by the worker of `attempt`.

    Reasoning that does not follow what was sent is dropped: nobody gets a mixture of two workers' thinking.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self._round = 0
        self._progress = TextProgress()

    def add(self, update: ReasoningUpdate) -> None:
        """Record an update."""
        self._begin(update.round)
        self._progress.add(update.text)

    def take_piece(self, frame: frames.ReasoningFrame) -> str:
        """Return what is new of a live piece."""
        if frame.round > self._round:
            length, self.attempt = 0, frame.attempt
        elif frame.round == self._round and frame.attempt == self.attempt:
            length = self._progress.length
        else:
            return ""
        return frame.text[length - frame.offset :] if frame.offset <= length else ""

    def take_rest(self, text: str, number: int) -> str:
        """Return what is new of a round's complete reasoning."""
        if number > self._round:
            return text
        is_rest = number == self._round and self._progress.is_beginning_of(text)
        return text[self._progress.length :] if is_rest else ""

    def _begin(self, number: int) -> None:
        if number != self._round:
            self._round, self._progress = number, TextProgress()


class SentUpdates:
    """The part of a run that was sent. With `needs_outputs`, a tool call's end is sent only with its output.

    `owed`: calls that have returned, whose end is sent once their output is known.
    """

    def __init__(self, *, needs_outputs: bool) -> None:
        self.started = False
        self.text = TextProgress()
        self.round = 1
        self.reasoning = ReasoningProgress()
        self.owed: set[str] = set()
        self._needs_outputs = needs_outputs
        self.sources: tuple[Source, ...] | None = None
        self._warnings: set[RunWarning] = set()
        self._called: set[str] = set()
        self._ended: set[str] = set()
        self._progress: dict[str, float] = {}

    def add(self, update: Update) -> bool:
        """Record an update. Return False for one that was sent, or that cannot be sent."""
        match update:
            case TextUpdate():
                self.text.add(update.text)
            case ReasoningUpdate():
                self.reasoning.add(update)
            case Started():
                is_new, self.started = not self.started, True
                return is_new
            case RetrievedSources():
                is_new = self.sources is None and self.text.length == 0
                self.sources = update.sources
                return is_new
            case WarningUpdate():
                is_new = update.warning not in self._warnings
                self._warnings.add(update.warning)
                return is_new
            case NextRound():
                is_new, self.round = update.number > self.round, max(update.number, self.round)
                return is_new
            case ToolStarted():
                is_new = update.call_id not in self._called
                self._called.add(update.call_id)
                return is_new
            case ToolProgressed():
                return self._advance_call(update)
            case ToolEnded():
                return self._end_call(update)
            case _:
                pass
        return True

    def _advance_call(self, update: ToolProgressed) -> bool:
        """Return True if the call is running and the progress is more than before, as MCP asks."""
        known = self._progress.get(update.call_id)
        is_running = update.call_id in self._called - self._ended - self.owed
        if not is_running or (known is not None and update.progress <= known):
            return False
        self._progress[update.call_id] = update.progress
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


class CallOrder:
    """Puts updates into the order of the canonical stream.

    In a live run outputs come late, out of the log, and in the order in which tools returned. What a round's
    tools returned follows in the order of its calls, and all else waits after it.
    """

    def __init__(self) -> None:
        self._open: dict[str, ToolEnded | None] = {}
        self._held: list[Update] = []

    def add(self, updates: Iterable[Update]) -> list[Update]:
        """Return the updates that are due now, of these and of the held ones."""
        due: list[Update] = []
        for update in updates:
            self._add(update, due)
        return due

    def _add(self, update: Update, due: list[Update]) -> None:
        match update:
            case ToolEnded() if update.call_id in self._open:
                self._open[update.call_id] = update
                self._release(due)
            case ToolProgressed():
                due += [update] if update.call_id in self._open else []
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
        """Release everything: calls that will not return delay nothing."""
        while self._open:
            due += (returned for returned in self._open.values() if returned is not None)
            self._open.clear()
            held, self._held = self._held, []
            due += self.add(held)
