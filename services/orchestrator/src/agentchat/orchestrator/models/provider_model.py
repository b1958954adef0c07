"""Call the models of a provider: send a call with its SDK, retry failures, bound the time of a reply.

The SDK signs and sends a request and raises its errors. We pass the body as bytes and an HTTP client on
aiohttp, and read the response's bytes ourselves. A provider's folder adds a subclass: how a call is sent, how
a reply is read, what its errors mean.
"""

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import aiohttp
import httpx2

from agentchat.contracts.timings import CHECK_SECONDS
from agentchat.net_guard import AddressRefused, Guard
from agentchat.net_guard.guarded_session import get_tls_context, is_compressed, open_session
from agentchat.orchestrator.models import model_interface
from agentchat.orchestrator.models.aiohttp_client import ANSWER, AioHttpClient
from agentchat.orchestrator.models.model_interface import Credentials, ModelCall, ModelFailure, ModelReply
from agentchat.orchestrator.models.sse_reader import StreamBroken
from agentchat.orchestrator.models.streamed_reply import (
    FAULTS,
    ReplySink,
    SilenceWatch,
    StreamedReply,
    compute_cost,
    read_reply,
    read_tail,
)
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.cpu_budget import CpuBudget
from agentchat.runtime.retry_loops import compute_backoff

IDLE_SECONDS = 60.0
"""A stream without any data, not even pings or comments, is given up after this time."""

QUIET_SECONDS = 300.0
"""A stream with nothing but pings is given up after this time: models may think in silence."""

LAST_SECONDS = 10.0
"""A stream is given up after this time of silence behind the stop reason."""

LOOP_SHARE = 0.5
"""Share of the event loop that reading one account's replies may take, after LOOP_BURST_SECONDS."""

LOOP_BURST_SECONDS = 0.05
FIRST_BACKOFF_SECONDS = 0.25
MAX_TRIES = 3
_RETRY_BUDGET_SECONDS = 20.0

_NO_ENDPOINT = frozenset({301, 302, 303, 307, 308, 404, 405})
"""Statuses of an address that is no endpoint, unless the provider names the model."""

_TIMEOUT = aiohttp.ClientTimeout(connect=5.0)
_KEEPALIVE_SECONDS = 60.0
_DESTINATIONS = 256
_UNREACHABLE = "The model provider could not be reached."
_REFUSED = "The agent's base URL resolves to an address that is not allowed."
_EMPTY = "The model provider returned an empty reply."
_NO_REPLY = frozenset({"thinking", "redacted_thinking"})
_MAY_BE_EMPTY = frozenset({"refusal", "max_tokens", "model_context_window_exceeded", "pause_turn"})

SdkClient = TypeVar("SdkClient")


def create_loop_budget() -> CpuBudget:
    """Create the budget of event-loop time, shared by accounts; one for all models of a worker."""
    return CpuBudget(LOOP_SHARE, LOOP_BURST_SECONDS)


class ProviderModel(ABC, Generic[SdkClient]):
    """A `ModelClient` for a provider's API. `guard` checks the agents' own base URLs."""

    status_error: type[Any]
    """The SDK's error for an answer that is no success."""

    connection_error: type[Exception]
    """The SDK's error for a request without an answer."""

    wrong_base_url: str
    """The message if the provider has no such endpoint."""

    environment: tuple[str, ...]
    """Variables that the SDK makes headers of: what the process is told is no agent's."""

    idle_seconds = IDLE_SECONDS
    """The time-out of a stream without any data, unless it is given."""

    def __init__(
        self,
        guard: Guard,
        loop: CpuBudget | None = None,
        *,
        idle_seconds: float | None = None,
        quiet_seconds: float = QUIET_SECONDS,
        last_seconds: float = LAST_SECONDS,
        first_backoff_seconds: float = FIRST_BACKOFF_SECONDS,
    ) -> None:
        for name in self.environment:
            os.environ.pop(name, None)
        session = partial(
            open_session, get_tls_context(), keepalive_seconds=_KEEPALIVE_SECONDS, timeout=_TIMEOUT
        )
        self._unguarded = AioHttpClient(session(), None)
        self._guarded = AioHttpClient(session(guard=guard), guard)
        self._clients: BoundedMap[Credentials, SdkClient] = BoundedMap(_DESTINATIONS)
        self._loop = loop or create_loop_budget()
        self._idle_seconds = idle_seconds or self.idle_seconds
        self._quiet_seconds = quiet_seconds
        self._last_seconds = last_seconds
        self._first_backoff_seconds = first_backoff_seconds

    async def aclose(self) -> None:
        """Close the connections."""
        await self._unguarded.aclose()
        await self._guarded.aclose()

    async def stream(
        self,
        credentials: Credentials,
        call: ModelCall,
        on_text: model_interface.OnText | None,
        meter: model_interface.Meter,
        on_reasoning: model_interface.OnText | None = None,
    ) -> ModelReply:
        """Stream a reply; retry transient failures a few times, within 20 s, while no text was sent."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _RETRY_BUDGET_SECONDS
        sink = ReplySink(on_text, on_reasoning)
        for number in range(1, MAX_TRIES + 1):
            sink.begin_try()
            reply = self._create_reply(call)
            try:
                return await self._try(credentials, call, reply, sink)
            except ModelFailure as failure:
                pause = max(compute_backoff(self._first_backoff_seconds, number), failure.retry_after or 0.0)
                if sink.any or not failure.transient or number == MAX_TRIES or loop.time() + pause > give_up:
                    raise
            finally:
                meter.usage += compute_cost(reply, call)
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def check(self, credentials: Credentials, call: ModelCall) -> None:
        """Call the model until the first event of its reply arrives."""
        reply = self._create_reply(call)
        try:
            async with asyncio.timeout(CHECK_SECONDS), self._open(credentials, call) as body:
                async for piece in body.iter_any():
                    reply.feed(piece)
                    if reply.begun:
                        return
            raise model_interface.make_cut_short("no_event")
        except TimeoutError as error:
            raise model_interface.make_timeout("timeout") from error
        except FAULTS as error:
            raise _translate_error(error) from error

    async def _try(
        self, credentials: Credentials, call: ModelCall, reply: StreamedReply, sink: ReplySink
    ) -> ModelReply:
        """Send the call and read its reply; an account over its share of the loop waits meanwhile."""
        try:
            async with asyncio.timeout(self._idle_seconds) as idle:
                async with self._open(credentials, call) as body:
                    watch = SilenceWatch(idle, self._idle_seconds, self._quiet_seconds, self._last_seconds)
                    await read_reply(body, reply, sink, watch, partial(self._loop.spend, call.account_id))
                    await read_tail(body)
            return _complete(reply, call)
        except FAULTS as error:
            if reply.ended and not sink.under_way:  # the reply is complete all the same
                return _complete(reply, call)
            if isinstance(error, TimeoutError):
                raise model_interface.make_timeout("idle" if idle.expired() else "timeout") from error
            raise _translate_error(error) from error

    @contextlib.asynccontextmanager
    async def _open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[aiohttp.StreamReader]:
        """Send the call; inside the block, the response's body as it arrives. Raises ModelFailure."""
        response = await self._answer(credentials, call)
        try:
            answer: aiohttp.ClientResponse = response.extensions[ANSWER]
            if is_compressed(answer):
                raise StreamBroken("the answer is compressed, which was not requested")
            yield answer.content
        finally:
            await response.aclose()

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
                raise model_interface.make_timeout("connect_timeout") from error
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
            }
            found = self._create_client(options)
            self._clients.put(credentials, found)
        return found

    @abstractmethod
    def can_enforce(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Return True if the provider enforces the schema without an instruction."""

    @abstractmethod
    def _create_client(self, options: dict[str, Any]) -> SdkClient:
        """Create the SDK's client with these options of its constructor."""

    @abstractmethod
    async def _send(self, client: SdkClient, base_url: str, call: ModelCall) -> httpx2.Response:
        """Send the call once, with the query of `base_url`. The body of the response is not read.

        Without `max_retries` and `timeout` the SDKs would copy their defaults, for 10 us.
        """

    @abstractmethod
    def _create_reply(self, call: ModelCall) -> StreamedReply:
        """Create the reader of the reply to a call."""

    @abstractmethod
    def _translate_status(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        """Translate an error response. `body` is its JSON, or text."""


def _complete(streamed: StreamedReply, call: ModelCall) -> ModelReply:
    """Return the reply. Raises ModelFailure for one with neither text nor calls nor a reason for that.

    A reply may be empty if the run has text already: after a cut, or when a model adds nothing to a tool's
    result.
    """
    reply = streamed.complete()
    is_empty = all(block["type"] in _NO_REPLY for block in reply.blocks)
    if (
        is_empty
        and reply.stop_reason not in _MAY_BE_EMPTY
        and not call.already_sent
        and not _has_spoken(call)
    ):
        raise ModelFailure("provider_error", _EMPTY, kind="empty_reply", transient=True)
    return reply


def _has_spoken(call: ModelCall) -> bool:
    """Return True if the model has said something since the user's message."""
    for message in reversed(call.messages):
        kinds = {block["type"] for block in message["content"]}
        if message["role"] == "assistant" and "text" in kinds:
            return True
        if message["role"] == "user" and "tool_result" not in kinds:
            return False
    return False


def _translate_error(error: Exception) -> ModelFailure:
    code = "broken_stream" if isinstance(error, StreamBroken) else type(error).__name__
    return model_interface.make_cut_short(code)


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
