"""Define the reply before it is written to a protocol, and the interface of a protocol."""

import re
from collections.abc import Callable, Mapping
from itertools import accumulate, cycle, pairwise, takewhile
from typing import Literal, Protocol

import msgspec

from agentchat.model_demo.errors import DemoApiError
from agentchat.model_demo.model_request import InputUsage, ModelRequest
from agentchat.model_demo.thinking_blocks import ThinkingPrefix

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


def split_into_words(text: str) -> list[str]:
    """Split a text into pieces of two to four words."""
    tokens = _TOKEN.findall(text) or [text]
    cuts = takewhile(lambda cut: cut < len(tokens), accumulate(cycle(_WORDS_A_PIECE), initial=0))
    return ["".join(tokens[start:end]) for start, end in pairwise([*cuts, len(tokens)])]


class PlannedToolCall(msgspec.Struct, frozen=True):
    """A tool call of a reply."""

    id: str
    name: str
    input_json: str


class PlannedReply(msgspec.Struct, frozen=True):
    """A reply: a text, then calls.

    `split` cuts the text into deltas; `compacts`: it is a summary.
    """

    text: str = ""
    calls: tuple[PlannedToolCall, ...] = ()
    thinking: str = ""
    stop_reason: StopReason = "end_turn"
    stop_sequence: str | None = None
    refusal: str | None = None
    compacts: bool = False
    split: Callable[[str], list[str]] = split_into_words


class ModelMessage(msgspec.Struct, frozen=True):
    """A reply with its usage. Each protocol puts its own prefix before `id`."""

    id: str
    model: str
    reply: PlannedReply
    read: InputUsage
    written: int
    stream_usage: bool
    prefix: ThinkingPrefix | None = None


class Events(msgspec.Struct, frozen=True):
    """The bytes of a stream. Each of `deltas` ends with one content delta."""

    head: bytes
    deltas: list[bytes]
    tail: bytes


class ModelWire(Protocol):
    """A protocol. `check_headers` and `read` raise DemoApiError.

    `write_error` returns the JSON body of an error; within a stream ERROR_PREFIX stands before it. PING keeps
    a stream alive. REQUEST_ID is the name of the request id's header.
    """

    ERROR_PREFIX: bytes
    PING: bytes
    REQUEST_ID: str

    def check_headers(self, headers: Mapping[str, str]) -> None:
        """Check the key and the version."""
        ...

    def read(self, raw: bytes, headers: Mapping[str, str], /) -> ModelRequest:
        """Read a request body."""
        ...

    def write_message(self, answer: ModelMessage) -> bytes:
        """Write a complete reply."""
        ...

    def write_events(self, answer: ModelMessage) -> Events:
        """Write a streamed reply."""
        ...

    def write_error(self, failed: DemoApiError, request_id: str) -> bytes:
        """Write an error."""
        ...
