"""A wire whose SDK configures, authenticates and words errors, while calls go to aiohttp directly.

By way of the SDK and httpx a call takes 0.65 ms of CPU more, and each chunk of its answer 8 µs
(docs/decisions/, calls of providers sent directly). Through the guard or a proxy it goes that way.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import aiohttp
import httpx2
import msgspec

from net_guard.transport import MAX_ERROR_BYTES
from orchestrator.models.clients import CONNECT_SECONDS, Clients, without_charset
from orchestrator.models.port import Credentials, ModelCall

_TIMEOUT = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)


class SdkAnswer(Protocol):
    """An answer as an SDK streams it."""

    def iter_bytes(self) -> AsyncIterator[bytes]: ...


class SdkError(Protocol):
    """A class of errors that name their request."""

    def __call__(self, *, request: httpx2.Request) -> Exception: ...


class SdkClient(Protocol):
    """What both SDKs' clients have: the error that an answer with such a status and body is."""

    def _make_status_error_from_response(self, response: httpx2.Response) -> Exception: ...


Client = TypeVar("Client", bound=SdkClient)


class SdkWire(ABC, Generic[Client]):
    """`streaming.Wire` but for what is the provider's own. Errors are the SDK's, however a call is sent.

    `connection_error` is its error of a call without an answer, `timeout_error` of one without it in time.
    """

    faults: tuple[type[Exception], ...]
    connection_error: ClassVar[SdkError]
    timeout_error: ClassVar[SdkError]

    def __init__(self, clients: Clients[Client]) -> None:
        self._clients = clients
        self._direct: WeakKeyDictionary[Client, DirectRequest | None] = WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send the call; inside, the bytes of the answer. Raises `faults`, and what reading can raise."""
        client = self._clients.of(credentials)
        direct = await self._direct_request(credentials, client)
        if direct is None:
            async with self._by_sdk(client, self._body(credentials, call), self._headers(call)) as answer:
                yield answer.iter_bytes()
            return
        async with await self._sent(direct, self._json(credentials, call), self._headers(call)) as response:
            if not 200 <= response.status < 300:
                raise client._make_status_error_from_response(await direct.failed(response))
            yield response.content.iter_any()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    @abstractmethod
    def _body(self, credentials: Credentials, call: ModelCall) -> dict[str, Any]:
        """The whole JSON body."""

    def _json(self, credentials: Credentials, call: ModelCall) -> bytes:
        """The same, encoded."""
        return msgspec.json.encode(self._body(credentials, call))

    def _headers(self, _call: ModelCall) -> dict[str, str]:
        """What it is sent with beside what all calls are."""
        return {}

    @abstractmethod
    def _by_sdk(
        self, client: Client, body: dict[str, Any], headers: dict[str, str]
    ) -> AbstractAsyncContextManager[SdkAnswer]:
        """The call as the SDK makes it."""

    async def _direct_request(self, credentials: Credentials, client: Client) -> "DirectRequest | None":
        """What the client's requests have in common; None where they are for the SDK to send."""
        if client not in self._direct:
            made = await self._made(credentials)
            session = self._clients.session(credentials, made.url)
            self._direct[client] = None if session is None else DirectRequest(made, session)
        return self._direct[client]

    async def _made(self, credentials: Credentials) -> httpx2.Request:
        """A request of the SDK's making."""
        try:
            async with self._by_sdk(self._clients.unsent(credentials), {}, {}):
                raise AssertionError("it is not sent")
        except self.faults as error:
            if isinstance(made := getattr(error, "request", None), httpx2.Request):
                return made
            raise

    async def _sent(
        self, direct: "DirectRequest", body: bytes, headers: dict[str, str]
    ) -> aiohttp.ClientResponse:
        try:
            return await direct.send(body, headers)
        except aiohttp.ServerTimeoutError as error:
            raise self.timeout_error(request=direct.made) from error
        except Exception as error:
            raise self.connection_error(request=direct.made) from error


class DirectRequest:
    """A request that is sent any number of times, each time with another body. `made` is the SDK's."""

    def __init__(self, made: httpx2.Request, session: aiohttp.ClientSession) -> None:
        self.made = made
        self._session = session
        self._url = str(made.url)
        self._headers = {name: value for name, value in made.headers.items() if name != "content-length"}

    async def send(self, body: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """The answer, as soon as its head is here."""
        return await self._session.request(
            self.made.method,
            self._url,
            headers=self._headers | headers,
            data=body,
            allow_redirects=False,
            timeout=_TIMEOUT,
        )

    async def failed(self, response: aiohttp.ClientResponse) -> httpx2.Response:
        """An answer that is no success, as the SDK reads one: with as much of its body as can matter."""
        body = bytearray()
        async for part in response.content.iter_any():
            body += part
            if len(body) >= MAX_ERROR_BYTES:
                break
        headers = httpx2.Headers(response.raw_headers)
        headers.pop("content-encoding", None)  # it is decoded here
        answer = httpx2.Response(
            response.status, headers=headers, content=bytes(body[:MAX_ERROR_BYTES]), request=self.made
        )
        await without_charset(answer)
        return answer
