"""Call a model of any provider: retry failures, watch for silent streams, bound a reply's size and CPU time.

A provider adds its `ProviderApi`: how a call is sent, how a reply is read, what its errors mean.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import aiohttp

from agentchat.contracts.timings import CHECK_SECONDS
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models import port
from agentchat.orchestrator.models.provider_api import ProviderApi
from agentchat.orchestrator.models.reply_builder import StreamedReply, add_estimates
from agentchat.orchestrator.models.sse_reader import StreamBroken
from agentchat.runtime.cpu_budget import CpuBudget
from agentchat.runtime.loops import compute_backoff

IDLE_SECONDS = 60.0
"""A stream without any data, not even pings or comments, is given up after this time."""

QUIET_SECONDS = 300.0
"""A stream with nothing but pings is given up after this time: models may think in silence."""

LAST_SECONDS = 10.0
"""A stream is given up after this time of silence behind the stop reason."""

LOOP_SHARE = 0.5
"""Share of the event loop that reading one account's replies may take, after LOOP_BURST_SECONDS."""

LOOP_BURST_SECONDS = 0.05
SLICE_BYTES = 16 * 1024
"""Bytes of a reply that are read in one turn of the loop, however fast a server sends."""

FIRST_BACKOFF_SECONDS = 0.25
MAX_TRIES = 3
MAX_REPLY_BYTES = 32 * 1024 * 1024
_EMPTY = "The model provider returned an empty reply."
_NO_REPLY = frozenset({"thinking", "redacted_thinking"})
_MAY_BE_EMPTY = frozenset({"refusal", "max_tokens", "model_context_window_exceeded", "pause_turn"})
_RETRY_BUDGET_SECONDS = 20.0
_TAIL_SECONDS = 0.2
_FAULTS = (StreamBroken, RecursionError, OSError, aiohttp.ClientError)
"""Exceptions that reading a reply can raise."""


def create_loop_budget() -> CpuBudget:
    """Create the budget of event-loop time, shared by accounts; one for all models of a worker."""
    return CpuBudget(LOOP_SHARE, LOOP_BURST_SECONDS)


class RetryingModel:
    """A `ModelClient` for a provider's API."""

    def __init__(
        self,
        api: ProviderApi[Any],
        *,
        loop: CpuBudget | None = None,
        idle_seconds: float = IDLE_SECONDS,
        quiet_seconds: float = QUIET_SECONDS,
        last_seconds: float = LAST_SECONDS,
        first_backoff_seconds: float = FIRST_BACKOFF_SECONDS,
    ) -> None:
        self._api = api
        self._loop = loop or create_loop_budget()
        self._idle_seconds = idle_seconds
        self._quiet_seconds = quiet_seconds
        self._last_seconds = last_seconds
        self._first_backoff_seconds = first_backoff_seconds

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def can_enforce(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Return True if the provider enforces the schema without an instruction."""
        return self._api.can_enforce(base_url, parameters, schema)

    async def stream(
        self,
        credentials: port.Credentials,
        call: port.ModelCall,
        on_text: port.OnText | None,
        meter: port.Meter,
        on_reasoning: port.OnText | None = None,
    ) -> port.ModelReply:
        """Stream a reply; retry transient failures a few times, within 20 s, while no text was sent."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _RETRY_BUDGET_SECONDS
        sent = _Sent(on_text, on_reasoning)
        for number in range(1, MAX_TRIES + 1):
            sent.begin_try()
            builder = self._api.create_reply(call)
            try:
                return await self._try(credentials, call, builder, sent)
            except port.ModelFailure as failure:
                pause = max(compute_backoff(self._first_backoff_seconds, number), failure.retry_after or 0.0)
                if sent.any or not failure.transient or number == MAX_TRIES or loop.time() + pause > give_up:
                    raise
            finally:
                meter.usage += _compute_cost(builder, call)
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def check(self, credentials: port.Credentials, call: port.ModelCall) -> None:
        """Call the model until the first event of its reply arrives."""
        builder = self._api.create_reply(call)
        try:
            async with asyncio.timeout(CHECK_SECONDS), self._api.open(credentials, call) as body:
                async for piece in body.iter_any():
                    builder.feed(piece)
                    if builder.begun:
                        return
            raise port.make_cut_short("no_event")
        except TimeoutError as error:
            raise port.make_timeout("timeout") from error
        except _FAULTS as error:
            raise _translate_error(error) from error

    async def _try(
        self, credentials: port.Credentials, call: port.ModelCall, builder: StreamedReply, sent: "_Sent"
    ) -> port.ModelReply:
        try:
            async with asyncio.timeout(self._idle_seconds) as idle:
                async with self._api.open(credentials, call) as body:
                    watch = _Watch(idle, self._idle_seconds, self._quiet_seconds, self._last_seconds)
                    await self._read(body, builder, sent, watch, call.account_id)
                    await _read_tail(body)
            return _complete(builder, call)
        except _FAULTS as error:
            if builder.ended and not sent.under_way:  # the reply is complete all the same
                return _complete(builder, call)
            if isinstance(error, TimeoutError):
                raise port.make_timeout("idle" if idle.expired() else "timeout") from error
            raise _translate_error(error) from error

    async def _read(
        self,
        body: aiohttp.StreamReader,
        builder: StreamedReply,
        sent: "_Sent",
        watch: "_Watch",
        account_id: str,
    ) -> None:
        """Read until the reply is complete, and pass its text on.

        An account over its share of the loop waits, and so does its model server: aiohttp stops reading.
        """
        size = 0
        async for piece in body.iter_any():
            size += len(piece)
            if size > MAX_REPLY_BYTES:
                raise StreamBroken("a reply without an end")
            for part in _slice(piece):
                began = time.perf_counter()
                text, moved = builder.feed(part)
                watch.record_arrival(moved, builder.ended)
                pause = self._loop.spend(account_id, time.perf_counter() - began)
                if reasoning := builder.take_reasoning():
                    await sent.send_reasoning(reasoning)
                if text:
                    await sent(text)
                if pause or len(piece) > SLICE_BYTES:
                    await asyncio.sleep(pause)
                if builder.finished:
                    return


def _complete(builder: StreamedReply, call: port.ModelCall) -> port.ModelReply:
    """Return the reply. Raises ModelFailure for one with neither text nor calls nor a reason for that.

    A reply may be empty if the run has text already: after a cut, or when a model adds nothing to a tool's
    result.
    """
    reply = builder.complete()
    is_empty = all(block["type"] in _NO_REPLY for block in reply.blocks)
    if (
        is_empty
        and reply.stop_reason not in _MAY_BE_EMPTY
        and not call.already_sent
        and not _has_spoken(call)
    ):
        raise port.ModelFailure("provider_error", _EMPTY, kind="empty_reply", transient=True)
    return reply


def _has_spoken(call: port.ModelCall) -> bool:
    """Return True if the model has said something since the user's message."""
    for message in reversed(call.messages):
        kinds = {block["type"] for block in message["content"]}
        if message["role"] == "assistant" and "text" in kinds:
            return True
        if message["role"] == "user" and "tool_result" not in kinds:
            return False
    return False


def _translate_error(error: Exception) -> port.ModelFailure:
    return port.make_cut_short("broken_stream" if isinstance(error, StreamBroken) else type(error).__name__)


def _slice(piece: bytes) -> Iterator[bytes]:
    if len(piece) <= SLICE_BYTES:
        return iter((piece,))
    return (piece[start : start + SLICE_BYTES] for start in range(0, len(piece), SLICE_BYTES))


async def _read_tail(body: aiohttp.StreamReader) -> None:
    """Read to the end of the response, so that the next call can reuse the connection."""
    if not body.at_eof():
        with suppress(*_FAULTS):
            async with asyncio.timeout(_TAIL_SECONDS):
                async for _ in body.iter_any():
                    pass


def _compute_cost(builder: StreamedReply, call: port.ModelCall) -> Usage:
    """Return what the provider reported, with an estimate for a stream that broke off."""
    if builder.ended or builder.finished or not builder.begun:
        return builder.usage
    return add_estimates(builder.usage, call, builder.get_partial_blocks())


class _Watch:
    """A watch over a stream that gives up after `idle_seconds` of silence or `quiet_seconds` of pings.

    After the stop reason, `last_seconds` replace both.
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

    def record_arrival(self, moved: bool, ended: bool) -> None:
        """Record that data arrived. `moved`: more than pings; `ended`: the stop reason is among it."""
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
    """A sink that remembers whether text was sent, and whether `on_text` is still running.

    Of several tries, only the first that has any reasoning sends it.
    """

    def __init__(self, on_text: port.OnText | None, on_reasoning: port.OnText | None) -> None:
        self._on_text = on_text
        self._on_reasoning = on_reasoning
        self._has_reasoned = self._is_mute = False
        self.any = False
        self.under_way = False

    def begin_try(self) -> None:
        """Send no more reasoning if an earlier try has sent some."""
        self._is_mute = self._has_reasoned

    async def send_reasoning(self, text: str) -> None:
        """Send a piece of the reasoning."""
        if self._on_reasoning is not None and not self._is_mute:
            self._has_reasoned = True
            await self._on_reasoning(text)

    async def __call__(self, text: str) -> None:
        if self._on_text is not None:
            self.any = self.under_way = True
            await self._on_text(text)
            self.under_way = False
