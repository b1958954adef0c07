"""Read from TRACES what an interrupted run has sent, checked against the log."""

import hashlib

import msgspec
from msgspec.structs import replace

from agentchat.contracts import frames
from agentchat.conversations.aggregate.conversation import Run


class SentOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Output that readers have received beyond the log.

    `text` is that of the unrecorded round, with the cuts of its frames. `called` and `returned` are ids of
    calls whose frames were sent; `sourced` is True if the frame of the sources was. `reasoned_round` is the
    last round of which reasoning was sent.
    """

    text: str = ""
    cuts: tuple[int, ...] = ()
    called: frozenset[str] = frozenset()
    returned: frozenset[str] = frozenset()
    sourced: bool = False
    reasoned_round: int = 0


def read_sent_output(run: Run, kept: list[frames.Frame]) -> SentOutput:
    """Return what readers of `kept`, the run's frames in stored order, have received.

    Frames of an overtaken attempt and frames after a gap do not count. If the frames contradict the log, no
    further text counts.
    """
    seen = _Reader()
    for frame in kept:
        seen.read(frame)
    recorded, text = run.text, "".join(seen.pieces)
    called, returned = frozenset(seen.called), frozenset(seen.returned)
    sent = SentOutput(
        called=called, returned=returned, sourced=seen.sourced, reasoned_round=seen.reasoned_round
    )
    if len(text) <= len(recorded) or not text.startswith(recorded):
        return sent
    ends = (end - len(recorded) for end in seen.ends)
    return replace(sent, text=text[len(recorded) :], cuts=tuple(end for end in ends if end > 0))


class _Reader:
    """A reader of frames that, unlike a gateway, cannot repair what it misses."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.ends: list[int] = []
        self.called: set[str] = set()
        self.returned: set[str] = set()
        self.sourced = False
        self.reasoned_round = 0
        self._attempt = 0
        self._seq = 0
        self._broken = False

    def read(self, frame: frames.Frame) -> None:
        if frame.seq == 0 or frame.attempt < self._attempt:
            return
        if frame.attempt > self._attempt:
            self._attempt, self._seq = frame.attempt, 0
            self._broken = not isinstance(frame, frames.Accepted | frames.Resumed)
        self._broken = self._broken or frame.seq != self._seq + 1
        self._seq = frame.seq
        if self._broken:
            return
        match frame:
            case frames.Resumed():
                self._go_back_to(frame)
            case frames.DeltaFrame():
                self.pieces.append(frame.text)
                self.ends.append((self.ends[-1] if self.ends else 0) + len(frame.text))
            case frames.ReasoningFrame():
                self.reasoned_round = frame.round
            case frames.SourcesFound():
                self.sourced = True
            case frames.ToolCalledFrame():
                self.called.add(frame.call_id)
            case frames.ToolReturnedFrame():
                self.returned.add(frame.call_id)
            case _:
                pass

    def _go_back_to(self, resumed: frames.Resumed) -> None:
        """Continue after the text that the attempt's worker knew, which may be less than was sent."""
        text = "".join(self.pieces)[: resumed.offset]
        if len(text) < resumed.offset or hashlib.sha256(text.encode()).hexdigest() != resumed.sha256:
            self._broken = True
            return
        self.pieces = [text] if text else []
        self.ends = [end for end in self.ends if end < resumed.offset] + ([resumed.offset] if text else [])
