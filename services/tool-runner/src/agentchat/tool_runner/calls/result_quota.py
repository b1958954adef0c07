"""Limit what each account publishes, so that no account fills the stream RESULTS for all."""

from collections import Counter, deque

WINDOW_SECONDS = 60.0
ACCOUNT_BYTES = 128 * 1024 * 1024
"""The most bytes of an account in a window at a tool-runner, an eighth of RESULTS (`bus.stream_settings`)."""


class ResultQuota:
    """The bytes of results of each account over the last minute.

    A large result leaves RESULTS once the log has it, at the end of its round, after some 35 s. So the bytes
    of the last minute are about the bytes that the account holds there.
    """

    def __init__(self, account_bytes: int = ACCOUNT_BYTES) -> None:
        self._account_bytes = account_bytes
        self._taken: deque[tuple[float, str, int]] = deque()
        self._sums: Counter[str] = Counter()

    def take(self, account_id: str, size: int, now: float) -> bool:
        """Count `size` bytes of a result.

        Return False, uncounted, if the account's quota is used up.
        """
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
