"""Embed over HTTP by the API of OpenAI, which most servers offer.

Among them are Voyage, Ollama, vLLM and Text Embeddings Inference. The `openai` SDK sends the requests and
retries those that may succeed.
"""

import asyncio
from collections.abc import Sequence

from openai import APIStatusError, AsyncOpenAI, OpenAIError

from agentchat.knowledge.errors import EmbedderUnavailable

_AT_ONCE = 32  # the default limit of servers
_TRIES = 3
_TIMEOUT_SECONDS = 20.0
REST_SECONDS = 5.0
_SLOW_SECONDS = 1.0
_TOO_LONG = {400, 413, 422}
"""Statuses by which servers refuse texts that are too long for their model."""
_SHORT = 256


class RemoteEmbedder:
    """An Embedder over HTTP. Create it on a running loop; close it when done.

    After a failure no request is sent for `rest_seconds`: a search then answers faster, without vectors.
    """

    def __init__(
        self,
        url: str,
        model: str,
        dimensions: int,
        *,
        key: str | None = None,
        least_similarity: float = 0.3,
        prefixes: tuple[str, str] = ("", ""),
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        """Create it. `prefixes` are texts that some models need before a passage and before a question."""
        self.dimensions = dimensions
        self.least_similarity = least_similarity
        self._model = model
        self._prefixes = prefixes
        self._rest_seconds = rest_seconds
        self._rest_until = 0.0
        self._client = AsyncOpenAI(
            base_url=url, api_key=key or "none", timeout=_TIMEOUT_SECONDS, max_retries=_TRIES - 1
        )

    def __repr__(self) -> str:
        return f"RemoteEmbedder(model={self._model!r})"

    @property
    def name(self) -> str:
        """The model and its passage prefix."""
        return " ".join(filter(None, (self._model, self._prefixes[0])))

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        """Return a vector for each text, in their order.

        Raises EmbedderUnavailable, whose text repeats nothing of the server's answer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        if began < self._rest_until:
            raise EmbedderUnavailable(f"{self._model} has just failed and is not called for some seconds")
        prefix = self._prefixes[question]
        asked = [f"{prefix} {text}" if prefix else text for text in texts]
        try:
            portions = [asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE)]
            return [vector for portion in portions for vector in await self._request_vectors(portion)]
        except EmbedderUnavailable:
            self._rest_until = loop.time() + self._rest_seconds
            raise
        except asyncio.CancelledError:  # by its caller's deadline
            if loop.time() - began >= _SLOW_SECONDS:
                self._rest_until = loop.time() + self._rest_seconds
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _request_vectors(self, texts: list[str]) -> list[list[float]]:
        """Ask for the vectors. Refused texts are sent again one by one, at last each cut shorter."""
        try:
            answer = await self._client.embeddings.create(
                model=self._model, input=texts, encoding_format="float"
            )
            vectors = {each.index: each.embedding for each in answer.data}
        except APIStatusError as error:
            if error.status_code in _TOO_LONG and len(texts) > 1:
                return [vector for text in texts for vector in await self._request_vectors([text])]
            if error.status_code in _TOO_LONG and len(texts[0]) > _SHORT:
                return await self._request_vectors([texts[0][: len(texts[0]) // 2]])
            raise EmbedderUnavailable(f"{self._model} answered {error.status_code}") from None
        except OpenAIError as error:
            raise EmbedderUnavailable(f"{self._model} cannot be reached ({type(error).__name__})") from None
        except (AttributeError, TypeError, ValueError):
            raise EmbedderUnavailable(f"{self._model} did not answer with embeddings") from None
        if vectors.keys() != set(range(len(texts))):
            raise EmbedderUnavailable(f"{self._model} gave other vectors than were requested")
        if wrong := {len(vector) for vector in vectors.values()} - {self.dimensions}:
            raise EmbedderUnavailable(
                f"{self._model} gives vectors of {min(wrong)} numbers; it is set to give {self.dimensions}"
            )
        return [vectors[index] for index in range(len(texts))]
