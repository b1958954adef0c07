"""Read a reply from a stream of server-sent events: what all providers share.

A provider adds how an event is read, and which content blocks result. The cost of a stream that broke off
before its provider reported it is estimated by length.
"""

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec

from agentchat.contracts.files import estimate_file_tokens
from agentchat.contracts.text_checks import clean_json, shorten_line
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models.loose_json import TextJoiner, parse_finite, reject_constant, to_text
from agentchat.orchestrator.models.model_interface import ModelCall, ModelFailure, ModelReply, OnText
from agentchat.orchestrator.models.sse_reader import EventReader, StreamBroken

SLICE_BYTES = 16 * 1024
"""Bytes of a reply that are read in one turn of the loop, however fast a server sends."""

MAX_REPLY_BYTES = 32 * 1024 * 1024
_TAIL_SECONDS = 0.2

FAULTS = (StreamBroken, RecursionError, OSError, aiohttp.ClientError)
"""Exceptions that reading a reply can raise."""

CHARACTERS_A_TOKEN = 4
"""Providers' rule of thumb for English text; other languages have fewer."""

MAX_BLOCKS = 500
"""Maximum of blocks in a reply; each tool call becomes an event."""

_NAME_CHARS = 200
_NO_OBJECT = "The input is not a JSON object."
_NO_JSON = "The input is not valid JSON."
_CUT_INPUT = "The reply reached its limit before the input was complete."
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})

Content = tuple[dict[str, Any], str]
"""A block, and what is wrong with a tool_use block's input."""


class ReplySink:
    """A sink that remembers whether text was sent, and whether `on_text` is still running.

    If there are several tries, only the first one that has reasoning sends it.
    """

    def __init__(self, on_text: OnText | None, on_reasoning: OnText | None) -> None:
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

    async def send_text(self, text: str) -> None:
        """Send a piece of the text."""
        if self._on_text is not None:
            self.any = self.under_way = True
            await self._on_text(text)
            self.under_way = False


class SilenceWatch:
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


async def read_reply(
    body: aiohttp.StreamReader,
    reply: "StreamedReply",
    sink: ReplySink,
    watch: SilenceWatch,
    spend: Callable[[float], float],
) -> None:
    """Read until the reply is complete, and pass its text on.

    `spend` charges seconds of the loop to the account and returns how long it has to wait. Its model server
    waits too then: aiohttp stops reading.
    """
    size = 0
    async for piece in body.iter_any():
        size += len(piece)
        if size > MAX_REPLY_BYTES:
            raise StreamBroken("a reply without an end")
        for part in _slice(piece):
            began = time.perf_counter()
            text, moved = reply.feed(part)
            watch.record_arrival(moved, reply.ended)
            pause = spend(time.perf_counter() - began)
            if reasoning := reply.take_reasoning():
                await sink.send_reasoning(reasoning)
            if text:
                await sink.send_text(text)
            if pause or len(piece) > SLICE_BYTES:
                await asyncio.sleep(pause)
            if reply.finished:
                return


def _slice(piece: bytes) -> Iterator[bytes]:
    if len(piece) <= SLICE_BYTES:
        return iter((piece,))
    return (piece[start : start + SLICE_BYTES] for start in range(0, len(piece), SLICE_BYTES))


async def read_tail(body: aiohttp.StreamReader) -> None:
    """Read to the end of the response, so that the next call can reuse the connection."""
    if not body.at_eof():
        with suppress(*FAULTS):
            async with asyncio.timeout(_TAIL_SECONDS):
                async for _ in body.iter_any():
                    pass


class StreamedReply(ABC):
    """A reply under construction from the bytes of one stream.

    `begun`: the provider has accepted the call. `finished`: what follows is ignored. `usage`: the cost so
    far.
    """

    def __init__(self) -> None:
        self.begun = False
        self.finished = False
        self.usage = Usage()
        self._events = EventReader()
        self._thoughts: list[str] = []
        self._thought_joiner = TextJoiner()
        self._may_think = True  # thinking after text is kept in its block only
        self._separates = self._has_thought = False
        self._raw_stop_reason: str | None = None
        self._message_id = ""
        self._model = ""

    @property
    def ended(self) -> bool:
        """True once the reply has a stop reason. It is complete then, whatever happens to the stream."""
        return self._raw_stop_reason is not None

    def feed(self, chunk: bytes) -> tuple[str, bool]:
        """Return the text that `chunk` adds, and whether it held more than pings.

        Raises StreamBroken, RecursionError for JSON nested without end, and ModelFailure for an error in the
        stream; nothing once the reply has ended.
        """
        texts: list[str] = []
        moved = False
        try:
            for kind, data in self._events.feed(chunk):
                if self.finished:
                    break
                text = self._take(kind, data) if data.strip() else None
                if text is not None:
                    moved = True
                    texts.append(text)
                    self._may_think = self._may_think and not text
        except (StreamBroken, ModelFailure, RecursionError):
            if not self.ended:
                raise
            self.finished = True
        return "".join(texts), moved

    def take_reasoning(self) -> str:
        """Return the thinking before the text, as far as it came since the last call."""
        taken = "".join(self._thoughts)
        self._thoughts.clear()
        return taken

    def complete(self) -> ModelReply:
        """Return the reply. Raises StreamBroken if the stream ended before it."""
        if not self._is_complete():
            raise StreamBroken("the stream ended before the reply did")
        reason = self._stop_reason()
        contents = list(self._build_blocks(cut=reason in _CUT))
        return ModelReply(
            blocks=tuple(block for block, _ in contents),
            stop_reason=reason,
            raw_stop_reason=self._raw_stop_reason or "",
            message_id=self._message_id,
            model=self._model,
            bad_inputs={place: problem for place, (_, problem) in enumerate(contents) if problem},
        )

    def get_partial_blocks(self) -> tuple[dict[str, Any], ...]:
        """Return the blocks so far, of a reply that may have broken off."""
        return tuple(block for block, _ in self._build_blocks(cut=True))

    def _begin_thinking(self) -> None:
        """Begin another block of thinking: a blank line comes before it."""
        self._separates = True

    def _add_thinking(self, piece: str) -> None:
        """Add thinking that readers may see."""
        text = self._thought_joiner.join(piece) if self._may_think and piece else ""
        if text:
            has_thought, self._has_thought = self._has_thought, True
            self._thoughts.append("\n\n" + text if self._separates and has_thought else text)
            self._separates = False

    def _mark_begun(self, message_id: Any, model: Any) -> None:
        self.begun = True
        self._message_id = self._message_id or shorten_line(to_text(message_id), _NAME_CHARS)
        self._model = self._model or shorten_line(to_text(model), _NAME_CHARS)

    def _mark_ended(self, reason: str) -> None:
        self._raw_stop_reason = shorten_line(reason)

    def _is_complete(self) -> bool:
        return self.ended

    def _stop_reason(self) -> str:
        return self._raw_stop_reason or ""

    @abstractmethod
    def _take(self, kind: bytes, data: bytes) -> str | None:
        """Return the text that an event of `kind` adds, or None for a ping. Raises as `feed` does."""

    @abstractmethod
    def _build_blocks(self, *, cut: bool) -> Iterable[Content]:
        """Build the blocks. `cut`: a limit ended the reply, perhaps in the middle of a call."""


def read_input(text: str, *, cut: bool = False) -> tuple[dict[str, Any], str]:
    """Return a call's input and "", or {} and what is wrong with it, for the model.

    `cut`: a limit ended the reply, which may be why there is no text.
    """
    try:
        text = TextJoiner().join(text)  # the halves of a surrogate pair may have come in two pieces
        given = clean_json(
            json.loads(text, parse_float=parse_finite, parse_constant=reject_constant) if text else {}
        )
    except (ValueError, RecursionError):
        return {}, _CUT_INPUT if cut else _NO_JSON
    if cut and not text and not given:
        return {}, _CUT_INPUT
    return (given, "") if isinstance(given, dict) else ({}, _NO_OBJECT)


def compute_cost(reply: StreamedReply, call: ModelCall) -> Usage:
    """Return what the provider reported, with an estimate for a stream that broke off."""
    if reply.ended or reply.finished or not reply.begun:
        return reply.usage
    return add_estimates(reply.usage, call, reply.get_partial_blocks())


def add_estimates(reported: Usage, call: ModelCall, received: Iterable[Mapping[str, Any]]) -> Usage:
    """Return `reported` with estimates of what is missing.

    The input if none was reported, the output if the blocks `received` have more than was reported.
    """
    sent = reported.input_tokens + reported.cache_read_tokens + reported.cache_creation_tokens
    return msgspec.structs.replace(
        reported,
        input_tokens=reported.input_tokens if sent else _estimate_tokens(_measure_call(call)),
        output_tokens=max(reported.output_tokens, _estimate_tokens(sum(map(_measure_block, received)))),
    )


def _estimate_tokens(length: int) -> int:
    return -(-length // CHARACTERS_A_TOKEN)


def _measure_call(call: ModelCall) -> int:
    blocks = (block for message in call.messages for block in message["content"])
    tools = sum(len(msgspec.json.encode(each)) for each in call.tools)
    return len(call.system) + len(call.already_sent) + tools + sum(map(_measure_block, blocks))


def _measure_block(block: Mapping[str, Any]) -> int:
    """Return the characters of a block's text, the bytes of its JSON, or the estimate of a file."""
    if block["type"] in ("image", "document"):
        source = block["source"]
        size = len(source["data"]) * 3 // 4
        return CHARACTERS_A_TOKEN * estimate_file_tokens(source["media_type"], size)
    text = block.get("text") or block.get("thinking")
    if isinstance(text, str):
        return len(text)
    content = block.get("input") or block.get("content")
    if block["type"] == "tool_result" and isinstance(content, list):
        return sum(map(_measure_block, content))
    return len(content) if isinstance(content, str) else len(msgspec.json.encode(content)) if content else 0
