"""Decide how often and how long one call is tried. Pure: clock and random source are arguments."""

import random
import time
from collections.abc import Callable

import msgspec

from agentchat.client.errors import AgentChatError, ApiError, ConnectionFailed, RateLimited, ServerFailed

RETRY_SECONDS = 60.0
"""No attempt begins later than this after the first, except after a lost answer."""

FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0

# Failures that another attempt within a minute cannot fix. Most are ends of a run whose message is saved:
# with the same key the answer is the same again, with a new one the message would be saved a second time.
_LASTING = frozenset(
    {
        "quota_exceeded",
        "user_quota_exceeded",
        "budget_exceeded",
        "user_budget_exceeded",
        "provider_error",
        "provider_refused",
        "provider_overloaded",
        "provider_timeout",
        "output_invalid",
        "generation_interrupted",
        "deadline_exceeded",
    }
)


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs in seconds. `read` bounds the silence of a stream, in which something is sent every 15 s.

    `total` bounds a call: a run may last 10 minutes, and wait half a minute before it starts.
    """

    connect: float = 5.0
    read: float = 60.0
    total: float = 660.0


class Budget:
    """The time and the retries that one call has left."""

    def __init__(
        self,
        max_retries: int,
        total: float,
        clock: Callable[[], float] = time.monotonic,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._dice = dice
        self._retries = 0
        self._max_retries = max_retries
        self._total = total
        self._since = clock()

    def check(self) -> None:
        """Raise TimeoutError when the call's total time is up."""
        if self._clock() - self._since > self._total:
            raise TimeoutError(f"The call took longer than {self._total:g} s.")

    def wait_after(self, failure: AgentChatError) -> float:
        """Return the seconds until the next attempt: Retry-After, and back-off with full jitter.

        Raises `failure` if another attempt cannot help or none is left. A Retry-After too long to wait for is
        raised at once: the caller can still respect it.
        """
        if self._retries >= self._max_retries or not _may_pass(failure):
            raise failure
        wait = self._dice() * min(LONGEST_WAIT, FIRST_WAIT * 2.0**self._retries)
        if isinstance(failure, ApiError) and failure.retry_after is not None:
            wait += failure.retry_after
        last = self._total if isinstance(failure, ConnectionFailed) else min(RETRY_SECONDS, self._total)
        if self._clock() + wait - self._since > last:
            raise failure
        self._retries += 1
        return wait


def _may_pass(failure: AgentChatError) -> bool:
    match failure:
        case ConnectionFailed():
            return True
        case RateLimited() | ServerFailed():
            return failure.code not in _LASTING
        case _:
            return False
