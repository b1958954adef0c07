"""How often the pieces of a reply's text go out. Pure: the caller passes the time."""

PIECES_A_SECOND = 200
"""More than a reader can tell apart; a model that writes slower than this never waits."""

PIECES_AT_ONCE = 100
INTERVAL_SECONDS = 0.05


class Pace:
    """Of one attempt at a run. A piece costs this worker, the bus and each gateway that follows the run about
    as much as a long text does. So the pieces of a model that keeps sending faster than PIECES_A_SECOND are
    joined: one goes out each INTERVAL_SECONDS, until the model sends slower.
    """

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0

    def pause_after(self, now: float) -> float:
        """A piece was sent at `now`, in seconds: for how long the next ones are to be collected."""
        self._level = max(0.0, self._level - (now - self._at) * PIECES_A_SECOND) + 1.0
        self._at = now
        if self._level <= PIECES_AT_ONCE:
            return 0.0
        self._level = PIECES_AT_ONCE + INTERVAL_SECONDS * PIECES_A_SECOND  # what the pause takes off again
        return INTERVAL_SECONDS
