"""Limit the CPU time of accounts: a rate and a burst."""

import time

from agentchat.runtime.bounded_map import BoundedMap

_KEPT = 1000


class CpuBudget:
    """A leaky bucket for each account: `share` seconds of CPU a second drain, `burst` seconds fit in."""

    def __init__(self, share: float, burst: float) -> None:
        self._share = share
        self._burst = burst
        self._spent: BoundedMap[str, tuple[float, float]] = BoundedMap(
            _KEPT
        )  # level, and when it was measured

    def spend(self, account_id: str, seconds: float) -> float:
        """Add CPU seconds to the account's bucket; return how long it must wait then."""
        level = self._get_level(account_id) + seconds
        self._spent.put(account_id, (level, time.monotonic()))
        return max(0.0, (level - self._burst) / self._share)

    def wait_seconds(self, account_id: str) -> float:
        """Return how long the account must wait; 0 if it may continue now."""
        return max(0.0, (self._get_level(account_id) - self._burst) / self._share)

    def _get_level(self, account_id: str) -> float:
        spent, at = self._spent.get(account_id) or (0.0, 0.0)
        return max(0.0, spent - (time.monotonic() - at) * self._share)
