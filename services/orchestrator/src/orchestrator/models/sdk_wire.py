"""A wire whose SDK configures, authenticates and words errors, while calls go past it to the connection.

By way of the SDK and httpx a call takes 0.8 ms of CPU more, and each chunk of its answer 25 µs
(decision 47). Through a proxy it goes that way.
"""

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import httpx2
import msgspec

from net_guard import AddressRefused
from net_guard.transport import MAX_ERROR_BYTES
from orchestrator.models.body import Body, IteratedBody
from orchestrator.models.clients import Clients, without_charset
from orchestrator.models.port import Credentials, ModelCall
from runtime.http.answer import HttpAnswer, Kept
from runtime.http.client import HttpClient, Origin

_PORTS = {"http": 80, "https": 443}
_UNFIT = re.compile(rb"[\r\n\0]")
_OURS = (b"accept-encoding", b"content-length", b"transfer-encoding")


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
    async def open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[Body]:
        """Send the call; inside, the body of the answer. Raises `faults`, and what reading can raise."""
        client = self._clients.of(credentials)
        direct = await self._direct_request(credentials, client)
        if direct is None:
            async with self._by_sdk(client, self._body(credentials, call), self._headers(call)) as answer:
                yield IteratedBody(answer.iter_bytes())
            return
        async with contextlib.AsyncExitStack() as stack:
            request = direct.send(self._json(credentials, call), self._headers(call))
            response = await self._sent(stack, direct, request)
            if not 200 <= response.status < 300:
                raise client._make_status_error_from_response(await direct.failed(response))
            yield response

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
        """What it is sent with next to what all calls are."""
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
            try:
                http = self._clients.direct(credentials, made.url)
                self._direct[client] = None if http is None else DirectRequest(made, http)
            except (ValueError, AddressRefused) as error:
                raise self.connection_error(request=made) from error
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
        self,
        stack: contextlib.AsyncExitStack,
        direct: "DirectRequest",
        request: AbstractAsyncContextManager[HttpAnswer],
    ) -> HttpAnswer:
        try:
            return await stack.enter_async_context(request)
        except TimeoutError as error:
            raise self.timeout_error(request=direct.made) from error
        except Exception as error:
            raise self.connection_error(request=direct.made) from error


class DirectRequest:
    """A request that is sent any number of times, each time with another body. `made` is the SDK's.

    Raises ValueError for a header that would not end with its line.
    """

    def __init__(self, made: httpx2.Request, http: HttpClient) -> None:
        self.made = made
        self._http = http
        url = made.url
        self._origin = Origin(url.raw_host.decode(), url.port or _PORTS[url.scheme], url.scheme == "https")
        kept = [each for each in made.headers.raw if each[0].lower() not in _OURS]
        if any(_UNFIT.search(part) for each in kept for part in each):
            raise ValueError("a header holds what no header can")
        lines = [b"%b %b HTTP/1.1" % (made.method.encode(), url.raw_path)]
        lines += [b"%b: %b" % each for each in kept]
        self._head = b"\r\n".join([*lines, b"accept-encoding: identity", b"content-length: "])

    def send(self, body: bytes, headers: dict[str, str]) -> AbstractAsyncContextManager[HttpAnswer]:
        """The answer, as soon as its head is here. `headers` are of our own making."""
        more = b"".join(b"%b: %b\r\n" % (name.encode(), value.encode()) for name, value in headers.items())
        return self._http.call(self._origin, (b"%b%d\r\n%b\r\n" % (self._head, len(body), more), body))

    async def failed(self, response: HttpAnswer) -> httpx2.Response:
        """An answer that is no success, as the SDK reads one: with as much of its body as can matter.

        A compressed body could expand without end: it is left out.
        """
        headers = httpx2.Headers(response.headers)
        compressed = headers.pop("content-encoding", "identity").strip().lower() != "identity"
        body = Kept(0 if compressed else MAX_ERROR_BYTES)
        await response.each(body)
        answer = httpx2.Response(
            response.status, headers=headers, content=bytes(body.data), request=self.made
        )
        await without_charset(answer)
        return answer
