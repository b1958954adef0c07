"""Define the port to embedders."""

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """Turns texts into vectors. Texts of similar meaning get vectors with a high cosine."""

    @property
    def name(self) -> str:
        """The model and its version. Vectors of different names are never compared."""

    @property
    def dimensions(self) -> int:
        """The length of a vector: at most 2,000, so that it is stored within its row."""

    @property
    def least_similarity(self) -> float:
        """The cosine, -1 to 1, below which two texts are unrelated.

        Every question has a nearest passage; this lets a question find nothing.
        """

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        """Return a vector for each text, in their order.

        The texts are passages, or with `question` questions that look for passages; at most 64. Deadlines and
        retries of its own are up to the embedder; callers set theirs too. Raises EmbedderUnavailable.
        """
