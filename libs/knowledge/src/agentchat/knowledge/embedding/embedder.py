"""The port to whatever turns texts into vectors of meaning."""

from collections.abc import Sequence
from typing import Protocol


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
