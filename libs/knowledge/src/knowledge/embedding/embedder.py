"""The port to whatever turns texts into vectors of meaning, and the one that needs no model."""

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from knowledge.search import search_words

_LENGTHS = (3, 4)


class Embedder(Protocol):
    """Texts to vectors; texts alike in meaning get vectors with a high cosine."""

    @property
    def name(self) -> str:
        """Which vectors these are, with the model's version: those of another name are never compared."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has: at most 2,000, to be stored next to its row."""

    @property
    def least_similarity(self) -> float:
        """The cosine below which two texts have nothing to do with each other: -1 to 1.

        Every question has a nearest passage; this is what lets a question find nothing.
        """

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        """A vector for each text, in their order: passages, or questions to find passages by.

        Called with at most 64 texts. Raises EmbedderUnavailable. Its own deadlines and retries are its own
        matter; callers set theirs too.
        """


class HashingEmbedder:
    """Without a model: character n-grams, hashed; the same text has the same vector on every machine.

    It knows how words are spelt, not what they mean: worth having for typing errors, compounds, and
    inflection in languages that Postgres does not stem.
    """

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
