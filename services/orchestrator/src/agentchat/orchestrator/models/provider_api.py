"""Call model providers with their SDKs, which sign and send a request and raise its errors.

We pass the body as bytes and an HTTP client on aiohttp, and read the response's bytes ourselves. An error
status becomes one of our failures; no text of a provider is passed on to clients.
"""

import contextlib
import email.utils
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import aiohttp
import httpx2

from agentchat.net_guard import AddressRefused, Guard
from agentchat.net_guard.guarded_session import is_compressed, open_session
from agentchat.orchestrator.models.aiohttp_transport import ANSWER, AioHttpTransport
from agentchat.orchestrator.models.port import Credentials, ModelCall, ModelFailure, make_timeout
from agentchat.orchestrator.models.reply_builder import StreamedReply
from agentchat.orchestrator.models.sse_reader import StreamBroken
from agentchat.runtime.bounded_map import BoundedMap

_KEY = "The model provider rejected the agent's key."
_CREDIT = "The model provider account of the agent's key is out of credit."
_PERMISSION = "The agent's key may not use this model."
_MODEL = "The model provider does not know the agent's model."
_REQUEST = "The model provider rejected the request: the agent's model and parameters may not fit together."

_NO_ENDPOINT = frozenset({301, 302, 303, 307, 308, 404, 405})
"""Statuses of an address that is no endpoint, unless the provider names the model."""

_TIMEOUT = aiohttp.ClientTimeout(connect=5.0)
_KEEPALIVE_SECONDS = 60.0
_DESTINATIONS = 256
_UNREACHABLE = "The model provider could not be reached."
_REFUSED = "The agent's base URL resolves to an address that is not allowed."


def from_http_status(
    status: int, message: str, headers: Mapping[str, str], *, too_long: bool
) -> ModelFailure:
    """Translate an error status. The failure's kind is `http_<status>`.

    `message` is the provider's own sentence; `too_long`: it says that the prompt is too long for the model.
    """
    code, words, transient = _classify_status(status, too_long)
    return ModelFailure(
        code,
        words,
        kind=f"http_{status}",
        transient=transient,
        retry_after=retry_after(headers) if transient else None,
        provider_message=message,
    )


def _classify_status(status: int, too_long: bool) -> tuple[str, str | None, bool]:
    """Return the error code, our message if it is not the code's own, and whether a retry may help."""
    match status:
        case 400 | 422 if too_long:
            return "context_too_long", None, False
        case 400 | 422:
            return "provider_error", _REQUEST, False
        case 401:
            return "provider_error", _KEY, False
        case 402:
            return "provider_error", _CREDIT, False
        case 403:
            return "provider_error", _PERMISSION, False
        case 404:
            return "provider_error", _MODEL, False
        case 413:
            return "context_too_long", None, False
        case 408 | 504:
            return "provider_timeout", None, True
        case 429 | 503 | 529:
            return "provider_overloaded", None, True
        case _:
            return "provider_error", None, status == 409 or status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `retry-after-ms` or `retry-after` (RFC 9110, section 10.2.3).

    A date is measured by the provider's own clock (`date`), since ours may differ.
    """
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after", "")
        if not text:
            return None
        if text.replace(".", "", 1).isdigit():
            return float(text)
        until, now = map(email.utils.parsedate_to_datetime, (text, headers["date"]))
        return max(0.0, (until - now).total_seconds())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


SdkClient = TypeVar("SdkClient")


class ProviderApi(ABC, Generic[SdkClient]):
    """The API of a provider: sends calls and reads replies. `guard` checks the agents' own base URLs."""

    status_error: type[Any]
    """The SDK's error for an answer that is no success."""

    connection_error: type[Exception]
    """The SDK's error for a request without an answer."""

    wrong_base_url: str
    """The message if the provider has no such endpoint."""

    environment: tuple[str, ...]
    """Variables that the SDK makes headers of: what the process is told is no agent's."""

    def __init__(self, guard: Guard) -> None:
        for name in self.environment:
            os.environ.pop(name, None)
        tls = httpx2.create_ssl_context()
        session = partial(open_session, tls, keepalive_seconds=_KEEPALIVE_SECONDS, timeout=_TIMEOUT)
        self._unguarded = _create_http_client(AioHttpTransport(session(), None))
        self._guarded = _create_http_client(AioHttpTransport(session(guard=guard), guard))
        self._clients: BoundedMap[Credentials, SdkClient] = BoundedMap(_DESTINATIONS)

    @contextlib.asynccontextmanager
    async def open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[aiohttp.StreamReader]:
        """Send the call; inside the block, the response's body as it arrives. Raises ModelFailure."""
        response = await self._answer(credentials, call)
        try:
            answer: aiohttp.ClientResponse = response.extensions[ANSWER]
            if is_compressed(answer):
                raise StreamBroken("the answer is compressed, which was not requested")
            yield answer.content
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._unguarded.aclose()
        await self._guarded.aclose()

    @abstractmethod
    def create_reply(self, call: ModelCall) -> StreamedReply:
        """Create the reader of the reply to a call."""

    @abstractmethod
    def can_enforce(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Return True if the provider enforces the schema without an instruction."""

    @abstractmethod
    def _create_client(self, options: dict[str, Any]) -> SdkClient:
        """Create the SDK's client with these options of its constructor."""

    @abstractmethod
    async def _send(self, client: SdkClient, base_url: str, call: ModelCall) -> httpx2.Response:
        """Send the call, with the query of `base_url`. The body of the response is not read."""

    @abstractmethod
    def _translate_status(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        """Translate an error response. `body` is its JSON, or text."""

    async def _answer(self, credentials: Credentials, call: ModelCall) -> httpx2.Response:
        """Return the response once its head is here. Raises ModelFailure."""
        try:
            return await self._send(self._get_client(credentials), credentials.base_url, call)
        except self.status_error as error:
            failure = self._translate_status(error.status_code, error.response.headers, error.body)
            if error.status_code in _NO_ENDPOINT and not _names_model(failure, call.model):
                failure = ModelFailure("provider_error", self.wrong_base_url, kind="wrong_base_url")
            raise failure from error
        except httpx2.InvalidURL as error:
            raise ModelFailure("provider_error", _REFUSED, kind="address") from error
        except (self.connection_error, ValueError) as error:  # ValueError: a line break in a header
            cause = error.__cause__
            if isinstance(cause, httpx2.TimeoutException):
                raise make_timeout("connect_timeout") from error
            if cause is not None and isinstance(cause.__cause__, AddressRefused):
                raise ModelFailure("provider_error", _REFUSED, kind="address") from error
            raise ModelFailure("provider_error", _UNREACHABLE, kind="connection", transient=True) from error

    def _get_client(self, credentials: Credentials) -> SdkClient:
        found = self._clients.get(credentials)
        if found is None:
            http = self._guarded if credentials.guarded else self._unguarded
            options = {
                "api_key": credentials.api_key,
                "base_url": credentials.base_url.partition("?")[0],
                "http_client": http,
                "max_retries": 0,
            }
            found = self._create_client(options)
            self._clients.put(credentials, found)
        return found


def _names_model(failure: ModelFailure, model: str) -> bool:
    """Return True if a 404 is about the model; servers have no common code for that."""
    message = failure.provider_message.lower()
    return not failure.kind.startswith("http_") or any(
        word in message for word in ("model", "deployment", model.lower())
    )


def join_url(base_url: str, path: str) -> str:
    """Append a path to a base URL, whose query stays: a gateway in front of a model may need it.

    The SDKs would join them too, for 1 % of the orchestrator's CPU time.
    """
    base, mark, query = base_url.partition("?")
    return base.rstrip("/") + path + mark + query


def _create_http_client(transport: AioHttpTransport) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=transport, headers={"accept-encoding": "identity"}, timeout=None, trust_env=False
    )
