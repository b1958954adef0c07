"""Streamed replies of any provider: bounded retries, and the watch over a silent stream.

A provider adds its `Wire`: how a call is sent, how the bytes of a reply are read, what its errors mean.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import httpx2

from contracts.timings import CHECK_SECONDS
from contracts.values import Usage
from net_guard import AddressRefused
from orchestrator.models.port import (
    Credentials,
    Meter,
    ModelCall,
    ModelFailure,
    OnText,
    Reply,
    cut_short,
    timed_out,
)
from orchestrator.models.sse import StreamBroken

IDLE_SECONDS = 60.0
MAX_TRIES = 3
MAX_REPLY_BYTES = 32 * 1024 * 1024
_RETRY_BUDGET_SECONDS = 20.0
_FIRST_BACKOFF_SECONDS = 0.25
_TAIL_SECONDS = 0.2
_REFUSED = "The agent's base URL leads to an address that may not be called."
_FAULTS = (StreamBroken, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)


class ReplyBuilder(Protocol):
    """Puts a reply together from the bytes of one stream.

    `begun`: the provider has taken the call. `finished`: what follows is of no interest. `usage` is what is
    known of the cost so far.
    """

    usage: Usage

    @property
    def begun(self) -> bool: ...

    @property
    def finished(self) -> bool: ...

    def feed(self, chunk: bytes) -> tuple[str, bool]:
        """The text that `chunk` adds, and whether it is a sign of life: pings are none.

        Raises StreamBroken, and ModelFailure for an error that was sent in the stream.
        """

    def whole(self) -> Reply:
        """The reply. Raises StreamBroken where it did not come to its end, however calmly it closed."""


class Wire(Protocol):
    """What is a provider's own. `faults` are its SDK's errors, which `failure` translates."""

    @property
    def faults(self) -> tuple[type[Exception], ...]: ...

    def open(
        self, credentials: Credentials, call: ModelCall
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Send the call; inside, the bytes of the answer. Raises `faults`."""

    def builder(self) -> ReplyBuilder:
        """For one stream."""

    def failure(self, error: Exception) -> ModelFailure:
        """What one of `faults` comes to."""

    def enforces(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """As `Model.enforces`."""

    async def aclose(self) -> None:
        """Close the connections."""


class StreamingModel:
    """A `Model` on a provider's wire."""

    def __init__(self, wire: Wire, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._wire = wire
        self._idle_seconds = idle_seconds

    async def aclose(self) -> None:
        """Close the connections."""
        await self._wire.aclose()

    def enforces(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """As `Model.enforces`."""
        return self._wire.enforces(base_url, parameters, schema)

    async def stream(
        self, credentials: Credentials, call: ModelCall, on_text: OnText | None, meter: Meter
    ) -> Reply:
        """As `Model.stream`: asked for again a few times, and for some seconds at most."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _RETRY_BUDGET_SECONDS
        sent = _Sent(on_text)
        for number in range(1, MAX_TRIES + 1):
            builder = self._wire.builder()
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
        """As `Model.check`: until the first event."""
        builder = self._wire.builder()
        try:
            async with asyncio.timeout(CHECK_SECONDS), self._wire.open(credentials, call) as chunks:
                async for chunk in chunks:
                    builder.feed(chunk)
                    if builder.begun:
                        return
            raise cut_short("no_event")
        except TimeoutError as error:
            raise timed_out("timeout") from error
        except self._wire.faults as error:
            raise self._failure(error) from error
        except _FAULTS as error:
            raise _failure(error) from error

    async def _try(
        self, credentials: Credentials, call: ModelCall, builder: ReplyBuilder, sent: "_Sent"
    ) -> Reply:
        try:
            async with asyncio.timeout(self._idle_seconds) as idle:
                async with self._wire.open(credentials, call) as chunks:
                    await self._read(chunks, builder, sent, idle)
            return builder.whole()
        except TimeoutError as error:
            raise timed_out("idle" if idle.expired() else "timeout") from error
        except self._wire.faults as error:
            raise self._failure(error) from error
        except _FAULTS as error:
            raise _failure(error) from error

    async def _read(
        self, chunks: AsyncIterator[bytes], builder: ReplyBuilder, sent: "_Sent", idle: asyncio.Timeout
    ) -> None:
        """Pings do not count as a sign of life: a stalled stream sends them too."""
        loop = asyncio.get_running_loop()
        armed = loop.time()
        read = 0
        async for chunk in chunks:
            read += len(chunk)
            if read > MAX_REPLY_BYTES:
                raise StreamBroken("a reply without an end")
            text, alive = builder.feed(chunk)
            if text:
                await sent(text)
            if alive and loop.time() - armed > 1.0:  # not for every chunk: each time costs two timers
                armed = loop.time()
                idle.reschedule(armed + self._idle_seconds)
            if builder.finished:
                break
        await _to_the_end(chunks)

    def _failure(self, error: Exception) -> ModelFailure:
        """What one of the wire's faults comes to."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, AddressRefused):
                return ModelFailure("provider_error", _REFUSED, kind="address")
            cause = cause.__cause__
        return self._wire.failure(error)


def _failure(error: Exception) -> ModelFailure:
    """What one of _FAULTS comes to."""
    if isinstance(error, httpx2.InvalidURL):
        return ModelFailure("provider_error", _REFUSED, kind="address")
    return cut_short("broken_stream" if isinstance(error, StreamBroken) else type(error).__name__)


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
