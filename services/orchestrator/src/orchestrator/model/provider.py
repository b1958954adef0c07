"""Calls to the provider: clients that are kept, bounded retries, and the watch over a silent stream."""

import asyncio
import contextlib
import ipaddress
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import anthropic
import httpx2
import msgspec

from contracts.values import Usage
from orchestrator.model.failures import ModelFailure, cut_short, from_sdk, timed_out
from orchestrator.model.reply import Reply, ReplyBuilder
from orchestrator.model.request import ModelCall, body_of
from orchestrator.model.wire import StreamBroken

OnText = Callable[[str], Awaitable[None]]

IDLE_SECONDS = 60.0
MAX_TRIES = 3
_CONNECT_SECONDS = 5.0
_RETRY_BUDGET_SECONDS = 20.0
_FIRST_BACKOFF_SECONDS = 0.25
_TAIL_SECONDS = 0.2
_CLIENTS = 256
_KEEPALIVE_SECONDS = 60.0
_CHECK_SECONDS = 15.0
_FAULTS = (anthropic.AnthropicError, StreamBroken, httpx2.HTTPError, httpx2.StreamError, OSError)


class Credentials(msgspec.Struct, frozen=True):
    """Where calls go and what opens the door."""

    base_url: str
    api_key: str

    def __repr__(self) -> str:
        return f"Credentials(base_url={self.base_url!r})"


class Meter:
    """Adds up what calls cost, as far as the provider told, whatever became of them."""

    def __init__(self) -> None:
        self.usage = Usage()


class Provider:
    """Streams replies. One client for each pair of address and key, all on shared connections."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._clients: OrderedDict[Credentials, anthropic.AsyncAnthropic] = OrderedDict()
        self._http = _http_client(trust_env=True)
        self._loopback = _http_client(trust_env=False)  # no proxy of the environment leads to this host

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
        await self._loopback.aclose()

    async def stream(
        self, credentials: Credentials, call: ModelCall, on_text: OnText | None, meter: Meter
    ) -> Reply:
        """One reply; its text goes to `on_text` as it arrives, or nowhere until the reply is whole.

        It is asked for again, a few times and for some seconds at most, only while no text has gone out.
        Raises ModelFailure.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _RETRY_BUDGET_SECONDS
        sent = _Sent(on_text)
        for number in range(1, MAX_TRIES + 1):
            builder = ReplyBuilder()
            try:
                return await self._try(credentials, call, builder, sent)
            except ModelFailure as failure:
                pause = _pause(number, failure.retry_after)
                if sent.any or not failure.transient or number == MAX_TRIES or loop.time() + pause > give_up:
                    raise
            finally:
                meter.usage += builder.usage
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def check(self, credentials: Credentials, call: ModelCall) -> None:
        """Make the call once and hang up at its first event: the provider takes it. Raises ModelFailure."""
        builder = ReplyBuilder()
        try:
            async with asyncio.timeout(_CHECK_SECONDS), self._open(credentials, call) as chunks:
                async for chunk in chunks:
                    builder.feed(chunk)
                    if builder.begun:
                        return
            raise cut_short("no_event")
        except TimeoutError as error:
            raise timed_out("timeout") from error
        except _FAULTS as error:
            raise _failure(error) from error

    async def _try(
        self, credentials: Credentials, call: ModelCall, builder: ReplyBuilder, sent: "_Sent"
    ) -> Reply:
        try:
            async with asyncio.timeout(self._idle_seconds) as idle:
                async with self._open(credentials, call) as chunks:
                    await self._read(chunks, builder, sent, idle)
            return builder.whole()
        except TimeoutError as error:
            raise timed_out("idle" if idle.expired() else "timeout") from error
        except _FAULTS as error:
            raise _failure(error) from error

    async def _read(
        self, chunks: AsyncIterator[bytes], builder: ReplyBuilder, sent: "_Sent", idle: asyncio.Timeout
    ) -> None:
        """Pings do not count as a sign of life: a stalled stream sends them too."""
        loop = asyncio.get_running_loop()
        armed = loop.time()
        async for chunk in chunks:
            text, alive = builder.feed(chunk)
            if text:
                await sent(text)
            if alive and loop.time() - armed > 1.0:  # not for every chunk: each time costs two timers
                armed = loop.time()
                idle.reschedule(armed + self._idle_seconds)
            if builder.finished:
                break
        await _to_the_end(chunks)

    @contextlib.asynccontextmanager
    async def _open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[AsyncIterator[bytes]]:
        body = body_of(call, cache=_caches(credentials.base_url))
        # All of the body goes as `extra_body`: the SDK would walk through every message of `messages`.
        request = self._client(credentials).messages.with_streaming_response.create(
            model=call.model, max_tokens=body["max_tokens"], messages=(), stream=True, extra_body=body
        )
        async with request as response:
            yield response.iter_bytes()

    def _client(self, credentials: Credentials) -> anthropic.AsyncAnthropic:
        client = self._clients.get(credentials)
        if client is None:
            http = self._loopback if _is_loopback(credentials.base_url) else self._http
            client = self._clients[credentials] = anthropic.AsyncAnthropic(
                api_key=credentials.api_key,
                base_url=credentials.base_url,
                max_retries=0,
                timeout=http.timeout,
                http_client=http,
                open_telemetry=False,
            )
            if len(self._clients) > _CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(credentials)
        return client


def _http_client(*, trust_env: bool) -> httpx2.AsyncClient:
    return anthropic.DefaultAioHttpClient(
        timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
        # Run slots bound the calls. 0 is aiohttp's word for "no limit"; None would leave its default of 100.
        limits=httpx2.Limits(max_connections=0, keepalive_expiry=_KEEPALIVE_SECONDS),
        follow_redirects=False,
        trust_env=trust_env,
    )


def _failure(error: Exception) -> ModelFailure:
    """What one of _FAULTS comes to."""
    match error:
        case anthropic.AnthropicError():
            return from_sdk(error)
        case StreamBroken():
            return cut_short("broken_stream")
        case _:
            return cut_short(type(error).__name__)


class _Sent:
    """Passes text on and remembers whether there was any."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self.any = False

    async def __call__(self, text: str) -> None:
        if self._on_text is not None:
            self.any = True
            await self._on_text(text)


async def _to_the_end(chunks: AsyncIterator[bytes]) -> None:
    """A body that was read to its end leaves a connection that the next call can use."""
    with contextlib.suppress(TimeoutError, httpx2.HTTPError, OSError):
        async with asyncio.timeout(_TAIL_SECONDS):
            async for _ in chunks:
                pass


def _pause(number: int, retry_after: float | None) -> float:
    """Seconds before the next try: doubling, with jitter, and never sooner than the provider asks."""
    backoff = _FIRST_BACKOFF_SECONDS * 2.0 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311
    return max(backoff, retry_after or 0.0)


def _is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _caches(base_url: str) -> bool:
    """Whether the provider is Anthropic itself, whose prompt caching may be asked for in one field."""
    host = urlsplit(base_url).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")
