"""A reply before it is put on the wire: its text and calls, and why it ends."""

import re
from collections.abc import Callable, Mapping
from itertools import accumulate, cycle, pairwise, takewhile
from typing import Literal, Protocol

import msgspec

from agentchat.model_demo.errors import DemoApiError
from agentchat.model_demo.request import InputUsage, ModelRequest

StopReason = Literal[
    "end_turn",
    "tool_use",
    "pause_turn",
    "refusal",
    "max_tokens",
    "stop_sequence",
    "model_context_window_exceeded",
]

_TOKEN = re.compile(r"\s*\S{1,24}(?:\s+\Z)?")
_WORDS_A_PIECE = (2, 3, 4)


def few_words(text: str) -> list[str]:
    """Cut a text into pieces of two to four words."""
    tokens = _TOKEN.findall(text) or [text]
    cuts = takewhile(lambda cut: cut < len(tokens), accumulate(cycle(_WORDS_A_PIECE), initial=0))
    return ["".join(tokens[start:end]) for start, end in pairwise([*cuts, len(tokens)])]


class PlannedToolCall(msgspec.Struct, frozen=True):
    id: str
    name: str
    input_json: str


class PlannedReply(msgspec.Struct, frozen=True):
    """A text, then calls. `split` cuts the text into deltas; if it `compacts`, the text is a summary."""

    text: str = ""
    calls: tuple[PlannedToolCall, ...] = ()
    stop_reason: StopReason = "end_turn"
    stop_sequence: str | None = None
    refusal: str | None = None
    compacts: bool = False
    split: Callable[[str], list[str]] = few_words


class ModelMessage(msgspec.Struct, frozen=True):
    """A reply with its figures; each wire puts its own prefix before `id`."""

    id: str
    model: str
    reply: PlannedReply
    read: InputUsage
    written: int
    stream_usage: bool


class Events(msgspec.Struct, frozen=True):
    """A stream's bytes. Each of `deltas` ends in one content delta, with what must stand before it."""

    head: bytes
    deltas: list[bytes]
    tail: bytes


class ModelWire(Protocol):
    """One protocol. `check_headers` and `read` raise DemoApiError.

    `error` is an error's JSON body, which within a stream comes after ERROR_PREFIX. PING is a stream's sign
    of life. REQUEST_ID names the header of the request's id.
    """

    ERROR_PREFIX: bytes
    PING: bytes
    REQUEST_ID: str

    def check_headers(self, headers: Mapping[str, str]) -> None: ...
    def read(self, raw: bytes, /) -> ModelRequest: ...
    def message(self, answer: ModelMessage) -> bytes: ...
    def events(self, answer: ModelMessage) -> Events: ...
    def error(self, failed: DemoApiError, request_id: str) -> bytes: ...
