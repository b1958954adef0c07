"""What an account may take of this process: slots in which calls run, and bytes of results."""

from collections import Counter, deque
from collections.abc import Hashable

from runtime.fair_slots import FairSlots


class Slots:
    """The `slots` of this process. An account gets half of them at most, and one server half of that.

    So servers that do not answer hold up neither another account nor, as long as two are sound, their own.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._accounts = FairSlots(slots)
        self._servers: dict[str, FairSlots] = {}

    async def take(self, account_id: str, server: Hashable) -> None:
        """Wait for a place, and give it back with `release`. Raises SlotsClosed."""
        servers = self._servers.setdefault(account_id, FairSlots(max(1, self._slots // 2)))
        try:
            await servers.take(server)
            try:
                await self._accounts.take(account_id)
            except BaseException:
                servers.release(server)
                raise
        finally:
            self._forget(account_id)

    def release(self, account_id: str, server: Hashable) -> None:
        self._accounts.release(account_id)
        self._servers[account_id].release(server)
        self._forget(account_id)

    def close(self) -> None:
        self._accounts.close()
        for servers in self._servers.values():
            servers.close()

    def _forget(self, account_id: str) -> None:
        servers = self._servers.get(account_id)
        if servers is not None and servers.idle:  # `close` ends many waits, of which the first one forgets
            del self._servers[account_id]


WINDOW_SECONDS = 60.0
ACCOUNT_BYTES = 128 * 1024 * 1024
"""In a window, by one tool-runner: an eighth of RESULTS (bus/streams.py)."""


class ResultQuota:
    """Bytes of results by account, over the last minute, so that no account fills RESULTS for all others.

    A large result leaves RESULTS when the log has it: at the end of its round, after some 35 s at most. So
    what an account published in the last minute is about what it holds there. Times are the caller's, in
    seconds.
    """

    def __init__(self, account_bytes: int = ACCOUNT_BYTES) -> None:
        self._account_bytes = account_bytes
        self._taken: deque[tuple[float, str, int]] = deque()
        self._sums: Counter[str] = Counter()

    def take(self, account_id: str, size: int, now: float) -> bool:
        """Count `size` bytes that the account publishes; False if that is more than it may."""
        while self._taken and self._taken[0][0] < now - WINDOW_SECONDS:
            _, account, bytes_before = self._taken.popleft()
            self._sums[account] -= bytes_before
            if not self._sums[account]:
                del self._sums[account]
        if self._sums[account_id] + size > self._account_bytes:
            return False
        self._taken.append((now, account_id, size))
        self._sums[account_id] += size
        return True
