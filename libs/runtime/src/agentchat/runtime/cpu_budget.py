"""CPU time that accounts may take: so much a second, and a burst."""

import time

from agentchat.runtime.bounded import BoundedMap

_KEPT = 1000


class CpuBudget:
    """A leaky bucket for each account: `share` seconds a second flow off, `burst` seconds fit in."""

    def __init__(self, share: float, burst: float) -> None:
        self._share = share
        self._burst = burst
        self._spent: BoundedMap[str, tuple[float, float]] = BoundedMap(_KEPT)  # what is left of it, and when

    def spend(self, account_id: str, seconds: float) -> None:
        self._spent.put(account_id, (self._left(account_id) + seconds, time.monotonic()))

    def wait_seconds(self, account_id: str) -> float:
        """How long until the account may go on; 0 for now."""
        return max(0.0, (self._left(account_id) - self._burst) / self._share)

    def _left(self, account_id: str) -> float:
        spent, at = self._spent.get(account_id) or (0.0, 0.0)
        return max(0.0, spent - (time.monotonic() - at) * self._share)
