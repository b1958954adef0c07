"""An embedder behind HTTP, in the form that most servers of embeddings speak (OpenAI's first; Voyage, Ollama,
vLLM and Text Embeddings Inference do): POST {url}/embeddings with `{"model", "input": [texts]}`, answered by
`{"data": [{"index", "embedding"}]}`.
"""

import asyncio
import random
from collections.abc import Sequence

import httpx2
import msgspec

from knowledge.errors import EmbedderUnavailable

_AT_ONCE = 32  # what servers take by their own default
_TRIES = 3
_TRY_SECONDS = 20.0
_CONNECT_SECONDS = 3.0
FIRST_BACKOFF_SECONDS = 0.2
_LONGEST_BACKOFF_SECONDS = 5.0
REST_SECONDS = 5.0
_SLOW_SECONDS = 1.0
_MOST_BYTES = 32 * 1024 * 1024
_SHORT = 256
_TOO_MUCH = {400, 413, 422}
_BUSY = {408, 409, 425, 429}


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Vector]


class _Refused(Exception):  # noqa: N818 - an outcome
    """The server wants no such texts: one of them may be longer than its model takes."""


class RemoteEmbedder:
    """An Embedder. Asks again, within bounds, what may be well the next time; close it when done.

    After a failure it is not asked for `rest_seconds`: whoever waits for an answer is better served without
    it then.
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
        first_backoff_seconds: float = FIRST_BACKOFF_SECONDS,
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        """`prefixes` are what the model wants before a passage and before a question, as some do."""
        self._address = f"{url.rstrip('/')}/embeddings"
        self._model = model
        self._dimensions = dimensions
        self._least_similarity = least_similarity
        self._prefixes = prefixes
        self._first_backoff_seconds = first_backoff_seconds
        self._rest_seconds = rest_seconds
        self._rest_until = 0.0
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(_TRY_SECONDS, connect=_CONNECT_SECONDS),
        )

    def __repr__(self) -> str:
        """Without the key, and without the address, which may hold one."""
        return f"RemoteEmbedder(model={self._model!r})"

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self._model, self._prefixes[0])))

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def least_similarity(self) -> float:
        return self._least_similarity

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        """A vector for each text, in their order. A text too long for the model has that of its beginning.

        Raises EmbedderUnavailable, in words that hold nothing of the server's answer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        if began < self._rest_until:
            raise EmbedderUnavailable(f"{self._model} has just failed and is not asked for some seconds")
        try:
            prefix = self._prefixes[question]
            asked = [f"{prefix} {text}" if prefix else text for text in texts]
            vectors: list[list[float]] = []
            for start in range(0, len(asked), _AT_ONCE):
                vectors += await self._some(asked[start : start + _AT_ONCE])
        except EmbedderUnavailable:
            self._rest_until = loop.time() + self._rest_seconds
            raise
        except asyncio.CancelledError:  # its caller's deadline, where it took long
            if loop.time() - began >= _SLOW_SECONDS:
                self._rest_until = loop.time() + self._rest_seconds
            raise
        return vectors

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _some(self, texts: list[str]) -> list[list[float]]:
        """What is refused is asked for in smaller portions, at last text by text and each cut shorter."""
        try:
            return await self._patiently(texts)
        except _Refused:
            if len(texts) > 1:
                half = len(texts) // 2
                return [*await self._some(texts[:half]), *await self._some(texts[half:])]
            if len(texts[0]) > _SHORT:
                return await self._some([texts[0][: len(texts[0]) // 2]])
            raise EmbedderUnavailable(f"{self._model} refuses what it is asked") from None

    async def _patiently(self, texts: list[str]) -> list[list[float]]:
        for number in range(1, _TRIES + 1):
            wait = self._first_backoff_seconds * 2**number * random.uniform(0.5, 1)  # noqa: S311 - no secret
            try:
                response = await self._post(texts)
            except httpx2.HTTPError as error:
                reason = f"{self._model} cannot be reached ({type(error).__name__})"
            else:
                if response.status_code == 200:
                    return self._vectors(response.content, len(texts))
                reason = f"{self._model} answered {response.status_code}"
                if response.status_code in _TOO_MUCH:
                    raise _Refused
                if response.status_code < 500 and response.status_code not in _BUSY:
                    break
                wait = max(wait, _seconds(response.headers.get("Retry-After", "")))
            if number == _TRIES or wait > _LONGEST_BACKOFF_SECONDS:
                break
            await asyncio.sleep(wait)
        raise EmbedderUnavailable(reason)

    async def _post(self, texts: list[str]) -> httpx2.Response:
        """The whole answer. Raises httpx2.HTTPError, EmbedderUnavailable where it is beyond all measure."""
        body = {"model": self._model, "input": texts}
        async with self._http.stream("POST", self._address, json=body) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > _MOST_BYTES:
                    raise EmbedderUnavailable(f"{self._model} answers without end")
        return httpx2.Response(response.status_code, headers=response.headers, content=bytes(content))

    def _vectors(self, content: bytes, count: int) -> list[list[float]]:
        try:
            found = {vector.index: vector.embedding for vector in _answers.decode(content).data}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise EmbedderUnavailable(f"{self._model} answered something else than embeddings") from None
        if found.keys() != set(range(count)):
            raise EmbedderUnavailable(f"{self._model} gave other vectors than it was asked for")
        lengths = {len(vector) for vector in found.values()}
        if lengths != {self._dimensions}:
            raise EmbedderUnavailable(
                f"{self._model} gives vectors of {min(lengths)} numbers; it is set to give {self._dimensions}"
            )
        return [found[index] for index in range(count)]


_answers = msgspec.json.Decoder(_Answer)


def _seconds(text: str) -> float:
    """Retry-After in seconds; its other form, a date, counts for nothing."""
    return float(text) if text.isascii() and text.isdigit() else 0.0
