"""An embedder without a model: character n-grams, hashed. It knows how words are spelt, not what they mean.

Worth having where words are spelt in many ways: typing errors, compounds, inflection in languages that
Postgres does not stem. It is lexical: "shoe" and "boot" are strangers to it.
"""

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

from knowledge.search import search_words

_LENGTHS = (3, 4)


class HashingEmbedder:
    def __init__(self, dimensions: int = 256) -> None:
        self._dimensions = dimensions

    @property
    def name(self) -> str:
        return "hashing-1"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def least_similarity(self) -> float:
        return 0.25

    async def embed(
        self,
        texts: Sequence[str],
        *,
        question: bool = False,  # noqa: ARG002 - one space for both
    ) -> list[list[float]]:
        """Unit vectors; zeros for a text without words. Some 1 ms a passage."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for gram, count in Counter(_grams(text)).items():
            # One bit decides the sign, so that grams that fall on one place do not add up on average.
            number = zlib.crc32(gram.encode())
            vector[(number >> 1) % self._dimensions] += (1 + math.log(count)) * (1 if number & 1 else -1)
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector] if length else vector


def _grams(text: str) -> Iterator[str]:
    for word in search_words.searchable(text).split():
        marked = f" {word} "
        for length in _LENGTHS:
            for at in range(max(1, len(marked) - length + 1)):
                yield marked[at : at + length]
