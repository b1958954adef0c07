"""When there is another attempt: of a message, and at an endpoint that fails. Pure but for the jitter."""

import random

_MINUTE, _HOUR = 60.0, 3600.0

RETRY_SECONDS = (
    5.0,
    5 * _MINUTE,
    30 * _MINUTE,
    *(hours * _HOUR for hours in (2, 5, 10, 14, 20, 24)),
)
"""After each failed attempt of a message, as in Standard Webhooks; none follows the last."""

FAILURES_IN_A_ROW = 5
"""With so many an endpoint is sent one message at a time, after pauses."""

LONGEST_PAUSE = 5 * _MINUTE
LONGEST_RETRY_AFTER = 24 * _HOUR
"""Of a Retry-After that is heeded."""


def compute_retry_delay(tries: int, retry_after: float | None) -> float | None:
    """Seconds to the next attempt of a message of which `tries` have failed; None after the last one.

    `retry_after`: the receiver's, in seconds.
    """
    if tries > len(RETRY_SECONDS):
        return None
    return max(_add_jitter(RETRY_SECONDS[tries - 1]), retry_after or 0.0)


def compute_pause(failures: int, retry_after: float | None) -> float | None:
    """For how long nothing is sent to an endpoint that failed so many times in a row; None for no pause."""
    if failures < FAILURES_IN_A_ROW:
        return retry_after
    doubled = RETRY_SECONDS[0] * 2.0 ** min(failures - FAILURES_IN_A_ROW, 10)
    return max(_add_jitter(min(doubled, LONGEST_PAUSE)), retry_after or 0.0)


def _add_jitter(seconds: float) -> float:
    """Up to a fifth later, so that what failed together is not repeated together."""
    return seconds * (1 + 0.2 * random.random())  # noqa: S311 - no secret
