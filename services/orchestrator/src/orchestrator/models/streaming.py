"""Streamed replies of any provider: bounded retries, and the watch over a silent stream.

A provider adds its `Wire`: how a call is sent, how the bytes of a reply are read, what its errors mean.
"""

import asyncio
import random
import time
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol

import httpx2

from contracts.timings import CHECK_SECONDS
from contracts.values import Usage
from net_guard import AddressRefused
from orchestrator.models.body import Body
from orchestrator.models.estimates import with_estimates
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
from orchestrator.models.reply import StreamedReply
from orchestrator.models.sse import StreamBroken
from runtime.cpu_budget import CpuBudget
from runtime.http.answer import Later

IDLE_SECONDS = 60.0
"""A stream is given up on which nothing has come for so long; a ping or a comment is a sign of life."""

QUIET_SECONDS = 300.0
"""A stream is given up on which nothing but pings has come for so long: models may think in silence, and a
stalled stream sends pings too."""

LAST_SECONDS = 10.0
"""Nothing has come for so long after the stop reason: nothing will."""

LOOP_SHARE = 0.5
"""Of the worker's event loop: what reading the replies of one account may take, over LOOP_BURST_SECONDS."""

LOOP_BURST_SECONDS = 0.05
SLICE_BYTES = 16 * 1024
"""Of a reply, in one turn of the loop: others come between, however fast a model server sends."""

FIRST_BACKOFF_SECONDS = 0.25
MAX_TRIES = 3
MAX_REPLY_BYTES = 32 * 1024 * 1024
_RETRY_BUDGET_SECONDS = 20.0
_TAIL_SECONDS = 0.2
_REFUSED = "The agent's base URL leads to an address that may not be called."
_HTTP_FAULTS = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)
_FAULTS = (StreamBroken, RecursionError, OSError, *_HTTP_FAULTS)


class Wire(Protocol):
    """What is a provider's own. `faults` are its SDK's errors, which `failure` translates."""

    @property
    def faults(self) -> tuple[type[Exception], ...]: ...

    def open(self, credentials: Credentials, call: ModelCall) -> AbstractAsyncContextManager[Body]:
        """Send the call; inside, the body of the answer. Raises `faults`."""

    def builder(self) -> StreamedReply:
        """For one stream."""

    def failure(self, error: Exception) -> ModelFailure:
        """What one of `faults` comes to."""

    def enforces(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """As `Model.enforces`."""

    async def aclose(self) -> None:
        """Close the connections."""


def loop_budget() -> CpuBudget:
    """The time of the worker's loop, shared out to the accounts; one for all models of a worker."""
    return CpuBudget(LOOP_SHARE, LOOP_BURST_SECONDS)


class StreamingModel:
    """A `Model` on a provider's wire. `loop`: see `loop_budget`."""

    def __init__(
        self,
        wire: Wire,
        *,
        loop: CpuBudget | None = None,
        idle_seconds: float = IDLE_SECONDS,
        quiet_seconds: float = QUIET_SECONDS,
        last_seconds: float = LAST_SECONDS,
        first_backoff_seconds: float = FIRST_BACKOFF_SECONDS,
    ) -> None:
        self._wire = wire
        self._loop = loop or loop_budget()
        self._faults: tuple[type[Exception], ...] = (*wire.faults, *_FAULTS)
        self._idle_seconds = idle_seconds
        self._quiet_seconds = quiet_seconds
        self._last_seconds = last_seconds
        self._first_backoff_seconds = first_backoff_seconds

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
                pause = self._pause(number, failure.retry_after)
                if sent.any or not failure.transient or number == MAX_TRIES or loop.time() + pause > give_up:
                    raise
            finally:
                meter.usage += _cost(builder, call)
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def check(self, credentials: Credentials, call: ModelCall) -> None:
        """As `Model.check`: until the first event."""
        builder = self._wire.builder()
        try:
            async with asyncio.timeout(CHECK_SECONDS), self._wire.open(credentials, call) as body:
                await body.each(_Begun(builder))
            if not builder.begun:
                raise cut_short("no_event")
        except TimeoutError as error:
            raise timed_out("timeout") from error
        except self._faults as error:
            raise self._failure(error) from error

    async def _try(
        self, credentials: Credentials, call: ModelCall, builder: StreamedReply, sent: "_Sent"
    ) -> Reply:
        try:
            async with asyncio.timeout(self._idle_seconds) as idle:
                async with self._wire.open(credentials, call) as body:
                    watch = _Watch(idle, self._idle_seconds, self._quiet_seconds, self._last_seconds)
                    await body.each(_Read(builder, sent, watch, self._loop, call.account_id))
                    await body.rest(_TAIL_SECONDS)
            return builder.whole()
        except self._faults as error:
            if builder.ended and not sent.under_way:  # whatever broke was of no interest
                return builder.whole()
            if isinstance(error, TimeoutError):
                raise timed_out("idle" if idle.expired() else "timeout") from error
            raise self._failure(error) from error

    def _pause(self, number: int, retry_after: float | None) -> float:
        """Seconds before the next try: doubling, with jitter, and never sooner than the provider asks."""
        backoff = self._first_backoff_seconds * 2.0 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311
        return max(backoff, retry_after or 0.0)

    def _failure(self, error: Exception) -> ModelFailure:
        """What one of the wire's faults, or of _FAULTS, comes to."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, AddressRefused | httpx2.InvalidURL):
                return ModelFailure("provider_error", _REFUSED, kind="address")
            cause = cause.__cause__
        if isinstance(error, self._wire.faults):
            return self._wire.failure(error)
        return cut_short("broken_stream" if isinstance(error, StreamBroken) else type(error).__name__)


def _cost(builder: StreamedReply, call: ModelCall) -> Usage:
    """What the provider reported; of a stream that broke off, with an estimate of what it did not report."""
    if builder.ended or builder.finished or not builder.begun:
        return builder.usage
    return with_estimates(builder.usage, call, builder.received())


class _Watch:
    """Gives a stream up that is silent for `idle_seconds`, or says nothing but pings for `quiet_seconds`;
    after the stop reason `last_seconds` stand for both.
    """

    def __init__(
        self, timeout: asyncio.Timeout, idle_seconds: float, quiet_seconds: float, last_seconds: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._idle_seconds = idle_seconds
        self._quiet_seconds = quiet_seconds
        self._last_seconds = last_seconds
        self._ended = False
        self._armed = self._moved = self._loop.time()

    def heard(self, moved: bool, ended: bool) -> None:
        """Something came. `moved`: it was more than pings; `ended`: the reply has told why it ended."""
        now = self._loop.time()
        if moved:
            self._moved = now
        stops = ended and not self._ended
        if stops:
            self._ended = True
            self._idle_seconds = self._quiet_seconds = self._last_seconds
        if stops or now - self._armed > self._idle_seconds / 60:  # not for every chunk: it costs two timers
            self._armed = now
            self._timeout.reschedule(min(now + self._idle_seconds, self._moved + self._quiet_seconds))


class _Sent:
    """Passes text on and remembers whether there was any; `under_way`: some has not been taken yet."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self.any = False
        self.under_way = False

    def __call__(self, text: str) -> Later | None:
        if self._on_text is None:
            return None
        self.any = self.under_way = True
        later = self._on_text(text)
        if later is not None:
            return partial(self._taken, later)
        self.under_way = False
        return None

    async def _taken(self, later: Later) -> None:
        await later()
        self.under_way = False


class _Read:
    """Takes the bytes of a reply, and passes its text on.

    An account over its share of the loop waits, and so does its model server: nothing is read meanwhile.
    """

    def __init__(
        self, builder: StreamedReply, sent: _Sent, watch: _Watch, loop: CpuBudget, account_id: str
    ) -> None:
        self._builder = builder
        self._sent = sent
        self._watch = watch
        self._loop = loop
        self._account_id = account_id
        self._bytes = 0

    @property
    def done(self) -> bool:
        """Whether the reply is whole."""
        return self._builder.finished

    def take(self, piece: bytes) -> Later | None:
        """As `Taker.take`. Raises what `StreamedReply.feed` raises, and what takes the text."""
        self._bytes += len(piece)
        if self._bytes > MAX_REPLY_BYTES:
            raise StreamBroken("a reply without an end")
        if len(piece) > SLICE_BYTES:
            return partial(self._take_slices, piece)
        return self._take(piece)

    def _take(self, piece: bytes) -> Later | None:
        began = time.perf_counter()
        text, moved = self._builder.feed(piece)
        self._watch.heard(moved, self._builder.ended)
        later = self._sent(text) if text else None
        self._loop.spend(self._account_id, time.perf_counter() - began)
        pause = self._loop.wait_seconds(self._account_id)
        return later if pause <= 0 else partial(_both, later, pause)

    async def _take_slices(self, piece: bytes) -> None:
        for start in range(0, len(piece), SLICE_BYTES):
            later = self._take(piece[start : start + SLICE_BYTES])
            await (later() if later is not None else asyncio.sleep(0))
            if self.done:
                return


async def _both(later: Later | None, pause: float) -> None:
    if later is not None:
        await later()
    await asyncio.sleep(pause)


class _Begun:
    """Takes the bytes of a reply until it has begun."""

    def __init__(self, builder: StreamedReply) -> None:
        self._builder = builder

    @property
    def done(self) -> bool:
        """Whether the provider has taken the call."""
        return self._builder.begun

    def take(self, piece: bytes) -> None:
        """As `Taker.take`."""
        self._builder.feed(piece)
