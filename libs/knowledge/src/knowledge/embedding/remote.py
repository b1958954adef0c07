"""An embedder over HTTP, in the form that most servers of embeddings speak (OpenAI's first; Voyage, Ollama,
vLLM and Text Embeddings Inference do): POST {url}/embeddings with `{"model", "input": [texts]}`, answered by
`{"data": [{"index", "embedding"}]}`.
"""

import asyncio
import ssl
from collections.abc import Sequence

import aiohttp
import msgspec
from yarl import URL

from knowledge.errors import EmbedderUnavailable
from net_guard.guarded_session import environment_proxy, is_compressed, open_session
from runtime.following import backoff

_AT_ONCE = 32  # what servers take by their own default
_TRIES = 3
_TIMEOUT = aiohttp.ClientTimeout(total=20.0, connect=3.0)
_KEEPALIVE_SECONDS = 60.0
FIRST_BACKOFF_SECONDS = 0.3
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
    """The server refuses these texts: one of them may be longer than its model takes."""


class RemoteEmbedder:
    """An Embedder, made on a running loop. Tries again, within bounds, what may succeed; close it when done.

    After a failure no request is sent for `rest_seconds`: a search answers sooner without vectors then.
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
        self._url = URL(f"{url.rstrip('/')}/embeddings")
        self._model = model
        self._dimensions = dimensions
        self._least_similarity = least_similarity
        self._prefixes = prefixes
        self._first_backoff_seconds = first_backoff_seconds
        self._rest_seconds = rest_seconds
        self._rest_until = 0.0
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session = open_session(
            ssl.create_default_context(), keepalive_seconds=_KEEPALIVE_SECONDS, timeout=_TIMEOUT
        )

    def __repr__(self) -> str:
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
            raise EmbedderUnavailable(f"{self._model} has just failed and is not called for some seconds")
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
        await self._session.close()

    async def _some(self, texts: list[str]) -> list[list[float]]:
        """Refused texts are sent again in smaller portions, at last one by one and each cut shorter."""
        try:
            return await self._patiently(texts)
        except _Refused:
            if len(texts) > 1:
                half = len(texts) // 2
                return [*await self._some(texts[:half]), *await self._some(texts[half:])]
            if len(texts[0]) > _SHORT:
                return await self._some([texts[0][: len(texts[0]) // 2]])
            raise EmbedderUnavailable(f"{self._model} refuses what it is sent") from None

    async def _patiently(self, texts: list[str]) -> list[list[float]]:
        for number in range(1, _TRIES + 1):
            wait = backoff(self._first_backoff_seconds, number)
            try:
                status, retry_after, content = await self._post(texts)
            except (aiohttp.ClientError, OSError) as error:  # of which TimeoutError is one
                reason = f"{self._model} cannot be reached ({type(error).__name__})"
            else:
                if status == 200:
                    return self._vectors(content, len(texts))
                reason = f"{self._model} answered {status}"
                if status in _TOO_MUCH:
                    raise _Refused
                if status < 500 and status not in _BUSY:
                    break
                wait = max(wait, _seconds(retry_after))
            if number == _TRIES or wait > _LONGEST_BACKOFF_SECONDS:
                break
            await asyncio.sleep(wait)
        raise EmbedderUnavailable(reason)

    async def _post(self, texts: list[str]) -> tuple[int, str, bytes]:
        """Status, Retry-After and the complete body of an answer.

        Raises ClientError, OSError, EmbedderUnavailable for an answer that is too long or compressed.
        """
        body = msgspec.json.encode({"model": self._model, "input": texts})
        async with self._session.post(
            self._url,
            data=body,
            headers=self._headers,
            proxy=environment_proxy(self._url),
            allow_redirects=False,
        ) as response:
            content = bytearray()
            async for part in response.content.iter_any():
                content += part
                if len(content) > _MOST_BYTES:
                    raise EmbedderUnavailable(f"{self._model} answers without end")
            if is_compressed(response):
                raise EmbedderUnavailable(f"{self._model} compresses its answers, which was not requested")
        return response.status, response.headers.get("Retry-After", ""), bytes(content)

    def _vectors(self, content: bytes, count: int) -> list[list[float]]:
        try:
            found = {vector.index: vector.embedding for vector in _answers.decode(content).data}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise EmbedderUnavailable(f"{self._model} answered something else than embeddings") from None
        if found.keys() != set(range(count)):
            raise EmbedderUnavailable(f"{self._model} gave other vectors than were requested")
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
