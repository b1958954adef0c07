"""One ranking out of several (pure)."""

from collections.abc import Sequence

_K = 60
"""How slowly a place counts for less: the usual constant of reciprocal rank fusion."""


def fuse(rankings: Sequence[Sequence[str]]) -> list[tuple[str, float]]:
    """Reciprocal rank fusion (Cormack, Clarke, Buettcher 2009): ids with their scores, best first.

    Each ranking gives an id 1/(60 + its place). The sum is told as a share of the most that is possible:
    1.0 is first in every ranking, first in one of two and absent from the other 0.5. Equals keep the order
    in which the rankings name them.
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for place, found in enumerate(ranking, start=1):
            scores[found] = scores.get(found, 0.0) + 1 / (_K + place)
    best = len(rankings) / (_K + 1)
    return [(found, score / best) for found, score in sorted(scores.items(), key=lambda entry: -entry[1])]
