"""Limit the open streams of server-sent events of each session and of the process."""

import contextlib
from collections import Counter
from collections.abc import Iterator

MOST_OF_SESSION = 20
MOST_OF_PROCESS = 1_000


class OpenStreams:
    """Counts the open streams by session."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def explain_refusal(self, session_id: str) -> str | None:
        """Return why the session may not open another stream; None if it may."""
        if self._open[session_id] >= MOST_OF_SESSION:
            return f"You have {MOST_OF_SESSION} live pages open. Close some and reload this page."
        if self._open.total() >= MOST_OF_PROCESS:
            return f"{MOST_OF_PROCESS:,} live pages are open at this console. Reload this page later."
        return None

    @contextlib.contextmanager
    def count(self, session_id: str) -> Iterator[None]:
        """Count one more stream of the session during the block."""
        self._open[session_id] += 1
        try:
            yield
        finally:
            self._open[session_id] -= 1
            self._open += Counter()  # drops sessions without streams
