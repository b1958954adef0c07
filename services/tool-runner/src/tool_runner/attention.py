"""Whether this process has been awake: a message read after a pause may be in work elsewhere by now.

A stopped process (SIGSTOP, a paused virtual machine, a blocked loop) still has messages pushed into its
socket. After 10 s the queue gives them to another runner, and this one would do them a second time.
"""

import asyncio
import time

_BEAT_SECONDS = 0.25
_PAUSE_SECONDS = 2.0
_SETTLED_SECONDS = 2.0
# Well under the 10 s after which the queue delivers a message again.
_STALE_SECONDS = 6.0


class Attention:
    """Keeps watch while `watch` runs. Times are `time.monotonic()`: it goes on in a stopped process."""

    def __init__(self) -> None:
        self._last_beat = time.monotonic()
        self._resumed_at = 0.0

    async def watch(self) -> None:
        """Notice pauses, for ever."""
        while True:
            self._beat()
            await asyncio.sleep(_BEAT_SECONDS)

    def unbroken_since(self, received_at: float) -> bool:
        """Whether a message read at `received_at` cannot have been given to anybody else meanwhile."""
        self._beat()
        settled = self._resumed_at + _SETTLED_SECONDS < received_at
        return settled and time.monotonic() - received_at < _STALE_SECONDS

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._last_beat > _PAUSE_SECONDS:
            self._resumed_at = now
        self._last_beat = now
