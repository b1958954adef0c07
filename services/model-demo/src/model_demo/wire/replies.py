"""A reply before it is put on the wire: what is said and called, and why it ends."""

from typing import Literal

import msgspec

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
]


class Thought(msgspec.Struct, frozen=True):
    """A thinking block; `shown` is false where the client asked for its text to be left out."""

    text: str
    signature: str
    shown: bool = True


class Say(msgspec.Struct, frozen=True):
    """A text block. `pieces` is its text cut into deltas; joined they are the text."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Call(msgspec.Struct, frozen=True):
    """A tool_use block. `input_json` is JSON text, broken only where a client is to be tested with that."""

    id: str
    name: str
    input_json: str


Part = Thought | Say | Call


class Reply(msgspec.Struct, frozen=True):
    """`refusal` goes with stop_reason refusal, `stop_sequence` with stop_sequence."""

    parts: tuple[Part, ...]
    stop_reason: StopReason = "end_turn"
    stop_sequence: str | None = None
    refusal: str | None = None
