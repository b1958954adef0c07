"""What a reader of a run is told, whatever form it is then given.

In order: Started, Sources where retrieval ran, Text and ToolStarted as they come, Finished or Broken.
"""

from typing import Any

import msgspec

from contracts.values import Message, Source, ToolCall


class Waiting(msgspec.Struct, frozen=True):
    """The conversation is busy: the request stands in line."""


class Started(msgspec.Struct, frozen=True):
    """The user's message is saved: from here on the caller may know of the run."""


class Sources(msgspec.Struct, frozen=True):
    """Retrieval ran; always before any Text."""

    sources: tuple[Source, ...]


class Text(msgspec.Struct, frozen=True):
    """The next piece of the reply."""

    text: str


class ToolStarted(msgspec.Struct, frozen=True):
    """The agent called a tool."""

    call_id: str
    name: str
    input: dict[str, Any]


class Finished(msgspec.Struct, frozen=True):
    """The reply is saved, and the Texts so far are its content. The last update."""

    message: Message
    tool_calls: tuple[ToolCall, ...]


class Broken(msgspec.Struct, frozen=True):
    """There will be no reply here; `code` is one of the error table. The last update.

    `local`: that is of this reader and his gateway alone; the run goes on, or has ended otherwise.
    """

    code: str
    message: str
    local: bool = False


Update = Waiting | Started | Sources | Text | ToolStarted | Finished | Broken

INTERRUPTED = Broken(
    "generation_interrupted", "The reply was interrupted and cannot go on where it stopped.", local=True
)
CANCELLED = Broken("cancelled", "The run was cancelled.")
