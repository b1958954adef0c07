"""A sample that keeps what is rare: of each kind of run a share, of a rare kind all. Pure."""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class StratifiedSample(Generic[K]):
    """Takes items one by one, each an id with its stratum, and keeps `size` at most of each stratum."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._seed = seed
        self._kept: dict[K, list[tuple[int, str]]] = defaultdict(list)
        self.seen: dict[K, int] = defaultdict(int)
        """How many there were of each stratum."""

    def add(self, stratum: K, item: str) -> None:
        self.seen[stratum] += 1
        kept, ranked = self._kept[stratum], (-self._rank(item), item)
        if len(kept) < self._size:
            heapq.heappush(kept, ranked)
        else:
            heapq.heappushpop(kept, ranked)

    def chosen(self) -> Iterator[str]:
        """`size` items, or all: the same ones for the same seed, in whichever order they came."""
        shares = shares_of({stratum: len(kept) for stratum, kept in self._kept.items()}, self._size)
        if sum(shares.values()) < min(self._size, sum(map(len, self._kept.values()))):
            shares = self._one_of_some()
        for stratum, share in shares.items():
            yield from (item for _, item in heapq.nlargest(share, self._kept[stratum]))

    def _one_of_some(self) -> dict[K, int]:
        """Where there are more strata than items are wanted."""
        ranked = sorted(self._kept, key=lambda stratum: self._rank(repr(stratum)))
        return dict.fromkeys(ranked[: self._size], 1)

    def _rank(self, item: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._seed}\n{item}".encode()).digest()[:8], "big")


def shares_of(sizes: Mapping[K, int], wanted: int) -> dict[K, int]:
    """How many of each stratum: as many of each as is possible, and all of one that has fewer.

    What does not divide goes to the larger ones. Nothing where there are more strata than are wanted.
    """
    shares: dict[K, int] = {}
    left = wanted
    ordered = sorted(sizes, key=lambda stratum: (sizes[stratum], repr(stratum)))
    for place, stratum in enumerate(ordered):
        share = min(sizes[stratum], left // (len(ordered) - place))
        shares[stratum] = share
        left -= share
    return shares
