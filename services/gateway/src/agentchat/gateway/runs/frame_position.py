"""Keep the phase of a run, and where a view is in the frames of its attempts. Pure."""

import enum

import msgspec

from agentchat.contracts import frames


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
