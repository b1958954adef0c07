"""Decide when to retry: a message, and an endpoint that fails. Pure, except for the jitter."""

import random

_MINUTE, _HOUR = 60.0, 3600.0

RETRY_SECONDS = (
    5.0,
    5 * _MINUTE,
    30 * _MINUTE,
    *(hours * _HOUR for hours in (2, 5, 10, 14, 20, 24)),
)
"""The wait after each failed attempt of a message, as in Standard Webhooks.

None follows the last.
"""

FAILURES_IN_A_ROW = 5
"""The number of failures from which on an endpoint is sent one message at a time, after pauses."""

LONGEST_PAUSE = 5 * _MINUTE
LONGEST_RETRY_AFTER = 24 * _HOUR
"""The longest Retry-After that is respected."""


def compute_retry_delay(tries: int, retry_after: float | None) -> float | None:
    """Return the seconds to the next attempt of a message that failed `tries` times.

    None after the last. `retry_after`: the receiver's, in seconds.
    """
    if tries > len(RETRY_SECONDS):
        return None
    return max(_add_jitter(RETRY_SECONDS[tries - 1]), retry_after or 0.0)


def compute_pause(failures: int, retry_after: float | None) -> float | None:
    """Return how long nothing is sent to an endpoint after `failures` in a row.

    None for no pause.
    """
    if failures < FAILURES_IN_A_ROW:
        return retry_after
    doubled = RETRY_SECONDS[0] * 2.0 ** min(failures - FAILURES_IN_A_ROW, 10)
    return max(_add_jitter(min(doubled, LONGEST_PAUSE)), retry_after or 0.0)


def _add_jitter(seconds: float) -> float:
    """Add up to a fifth, so that messages that failed together are not repeated together."""
    return seconds * (1 + 0.2 * random.random())  # noqa: S311 - no secret
