"""Calls of model providers over HTTP: the SDK describes the headers of a request, aiohttp sends it.

A status that is no success is one of our failures; no text of the provider's is passed on to clients.

Sent by the SDK, a call would cost 0.5 ms of CPU more, and each piece of its reply 8 µs (decision 47).
"""

import contextlib
import email.utils
import io
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Protocol

import aiohttp
import httpx2
import msgspec
from yarl import URL

from net_guard import AddressRefused, Guard, Unresolved
from net_guard.guarded_session import environment_proxy, is_compressed, judge, open_session
from orchestrator.models.port import Credentials, ModelCall, ModelFailure, timed_out
from orchestrator.models.reply_builder import StreamBroken
from runtime.bounded import BoundedMap

_KEY = "The model provider does not accept the agent's key."
_CREDIT = "The model provider account of the agent's key has no credit."
_PERMISSION = "The agent's key may not use this model."
_MODEL = "The model provider does not know the agent's model."
_REQUEST = "The model provider does not accept the request: the agent's model and parameters may not agree."

MAX_ERROR_BYTES = 1024 * 1024
"""Of the body of an answer that is no success; the rest is not read."""

_TIMEOUT = aiohttp.ClientTimeout(connect=5.0)
_KEEPALIVE_SECONDS = 60.0
_DESTINATIONS = 256
_SENT_AT_ONCE = 1024 * 1024
_REFUSED = "The agent's base URL leads to an address that may not be called."
_NOT_SENT = (aiohttp.ClientError, OSError, ValueError, Unresolved)  # ValueError: a header that would be two


def of_status(status: int, message: str, headers: Mapping[str, str], *, too_long: bool) -> ModelFailure:
    """`message` is the provider's own sentence; `too_long`: it says that the prompt is too long for the
    model.

    The failure's kind is `http_<status>`.
    """
    code, words, transient = _of_status(status, too_long)
    return ModelFailure(
        code,
        words,
        kind=f"http_{status}",
        transient=transient,
        retry_after=retry_after(headers) if transient else None,
        provider_message=message,
    )


def _of_status(status: int, too_long: bool) -> tuple[str, str | None, bool]:
    """The code, words other than its own, and whether another try may help."""
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
    """Seconds, from `retry-after-ms` or `retry-after` (a number or an HTTP date, RFC 9110 section 10.2.3).

    A date is that of the provider's clock, which the answer states too (`date`); ours may be another.
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


class SdkClient(Protocol):
    """What the clients of both SDKs state of their requests."""

    @property
    def auth_headers(self) -> dict[str, str]: ...

    @property
    def user_agent(self) -> str: ...

    def platform_headers(self) -> dict[str, str]: ...


class Destination(msgspec.Struct, frozen=True):
    """Where the calls of one pair of address and key go, and the headers that all of them carry."""

    session: aiohttp.ClientSession
    url: URL
    headers: dict[str, str]
    proxy: str | None


class ProviderWire(ABC):
    """`streaming.Wire` except for what is the provider's own. `guard` judges the agents' own addresses."""

    path: bytes
    """Of a call, below the base URL."""

    def __init__(self, guard: Guard) -> None:
        tls = httpx2.create_ssl_context()
        self._guard = guard
        session = partial(open_session, tls, keepalive_seconds=_KEEPALIVE_SECONDS, timeout=_TIMEOUT)
        self._unguarded, self._guarded = session(), session(guard=guard)
        self._sdk_http = httpx2.AsyncClient(verify=tls, trust_env=False)  # for the SDKs; it sends nothing
        self._destinations: BoundedMap[Credentials, Destination] = BoundedMap(_DESTINATIONS)

    @contextlib.asynccontextmanager
    async def open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[aiohttp.StreamReader]:
        answer = await self._sent(credentials, call)
        try:
            if not 200 <= answer.status < 300:
                raise self._status_failure(answer.status, answer.headers, await _error_body(answer))
            if is_compressed(answer):
                raise StreamBroken("the answer is compressed, which was not requested")
            yield answer.content
        finally:
            answer.release()  # closes a connection whose answer was not read to its end

    async def aclose(self) -> None:
        await self._unguarded.close()
        await self._guarded.close()
        await self._sdk_http.aclose()

    @abstractmethod
    def _client(self, credentials: Credentials, http: httpx2.AsyncClient) -> SdkClient:
        """The SDK's client for these."""

    @abstractmethod
    def _json(self, credentials: Credentials, call: ModelCall) -> bytes:
        """The body of a call."""

    def _headers(self, _call: ModelCall) -> dict[str, str]:
        """What it is sent with in addition to the headers of all calls."""
        return {}

    @abstractmethod
    def _status_failure(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        """What an answer with such a status means. `body` is its JSON, or text that is none."""

    async def _sent(self, credentials: Credentials, call: ModelCall) -> aiohttp.ClientResponse:
        """The answer, as soon as its head is here. Raises ModelFailure."""
        body = self._json(credentials, call)
        try:
            destination = self._destination(credentials)
            return await destination.session.post(
                destination.url,
                data=body if len(body) <= _SENT_AT_ONCE else io.BytesIO(body),
                headers=destination.headers | self._headers(call),
                proxy=destination.proxy,
                allow_redirects=False,
            )
        except (AddressRefused, httpx2.InvalidURL) as error:
            raise ModelFailure("provider_error", _REFUSED, kind="address") from error
        except TimeoutError as error:
            raise timed_out("connect_timeout") from error
        except _NOT_SENT as error:
            raise ModelFailure("provider_error", kind="connection", transient=True) from error

    def _destination(self, credentials: Credentials) -> Destination:
        found = self._destinations.get(credentials)
        if found is None:
            found = self._described(credentials)
            self._destinations.put(credentials, found)
        return found

    def _described(self, credentials: Credentials) -> Destination:
        base = httpx2.URL(credentials.base_url)
        path, mark, query = base.raw_path.partition(b"?")
        url = URL(str(base.copy_with(raw_path=path.rstrip(b"/") + self.path + mark + query)), encoded=True)
        if credentials.guarded:
            judge(self._guard, url)
        client = self._client(credentials, self._sdk_http)
        # Not `default_headers`: these hold what the environment of the process says, which is no agent's.
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": client.user_agent,
            **client.platform_headers(),
            **client.auth_headers,
        }
        session = self._guarded if credentials.guarded else self._unguarded
        return Destination(session, url, headers, None if credentials.guarded else environment_proxy(url))


async def _error_body(answer: aiohttp.ClientResponse) -> Any:
    """Its JSON, or its text. A compressed one could expand without end: it is left out."""
    if is_compressed(answer):
        return ""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) >= MAX_ERROR_BYTES:
            break
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body.decode("utf-8", "replace").strip()
