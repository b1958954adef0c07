"""The few statistics that the figures need."""

from collections.abc import Sequence
from statistics import median

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """A figure over the rounds."""

    median: float
    low: float
    high: float


def share(ordered: Sequence[float], part: float) -> float:
    """The value below which a share of `ordered` lies; 0.0 where there is none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def spread(values: Sequence[float]) -> Spread:
    """Raises statistics.StatisticsError for none."""
    return Spread(median(values), min(values), max(values))
