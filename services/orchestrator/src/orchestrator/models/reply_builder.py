"""A reply while it is put together from a stream: what is the same for all providers.

A provider adds how an event is read, and which content blocks came of them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from contracts.text import cleaned_json, short_line
from contracts.values import Usage
from orchestrator.models.port import ModelFailure, Reply
from orchestrator.models.provider_sse import EventReader, StreamBroken

MAX_BLOCKS = 500
"""Of one reply: more are no model's, and each call of a tool becomes an event of its own."""

_NAME_CHARS = 200
_NO_OBJECT = "The input is not a JSON object."
_NO_JSON = "The input is not valid JSON."
_CUT_INPUT = "The reply reached its limit before the input was complete."
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})

Content = tuple[dict[str, Any], str]
"""A block, and what is wrong with it where it is a tool_use block whose input is none."""


class StreamedReply(ABC):
    """Takes the bytes of one stream. `begun`: the provider has taken the call; `finished`: what follows is of
    no interest; `usage`: the cost so far.
    """

    def __init__(self) -> None:
        self.begun = False
        self.finished = False
        self.usage = Usage()
        self._events = EventReader()
        self._raw_stop_reason: str | None = None
        self._message_id = ""
        self._model = ""

    @property
    def ended(self) -> bool:
        """Whether the reply has stated why it ended. It is complete then, whatever becomes of the stream."""
        return self._raw_stop_reason is not None

    def feed(self, chunk: bytes) -> tuple[str, bool]:
        """The text that `chunk` adds, and whether it held more than pings.

        Raises StreamBroken, RecursionError for what is nested without end, and ModelFailure for an error that
        was sent in the stream; nothing once the reply has ended.
        """
        texts: list[str] = []
        moved = False
        try:
            for data in self._events.feed(chunk):
                if self.finished:
                    break
                text = self._take(data)
                if text is not None:
                    moved = True
                    texts.append(text)
        except (StreamBroken, ModelFailure, RecursionError):
            if not self.ended:
                raise
            self.finished = True
        return "".join(texts), moved

    def complete(self) -> Reply:
        """The reply. Raises StreamBroken where it did not come to its end, however calmly it closed."""
        if not self._is_complete():
            raise StreamBroken("the stream ended before the reply did")
        reason = self._stop_reason()
        contents = list(self._contents(cut=reason in _CUT))
        return Reply(
            blocks=tuple(block for block, _ in contents),
            stop_reason=reason,
            raw_stop_reason=self._raw_stop_reason or "",
            message_id=self._message_id,
            model=self._model,
            bad_inputs={place: problem for place, (_, problem) in enumerate(contents) if problem},
        )

    def received(self) -> tuple[dict[str, Any], ...]:
        """The blocks so far, of a reply that may have been broken off."""
        return tuple(block for block, _ in self._contents(cut=True))

    def _begins(self, message_id: str | None, model: str | None) -> None:
        self.begun = True
        self._message_id = self._message_id or short_line(message_id or "", _NAME_CHARS)
        self._model = self._model or short_line(model or "", _NAME_CHARS)

    def _ends(self, reason: str) -> None:
        self._raw_stop_reason = short_line(reason)

    def _is_complete(self) -> bool:
        return self.ended

    def _stop_reason(self) -> str:
        return self._raw_stop_reason or ""

    @abstractmethod
    def _take(self, data: bytes) -> str | None:
        """The text that an event adds; None for a ping. Raises as `feed` does."""

    @abstractmethod
    def _contents(self, *, cut: bool) -> Iterable[Content]:
        """The blocks. `cut`: a limit ended the reply, which may have been in the middle of a call."""


def read_input(text: str, begun_with: Any = None, *, cut: bool = False) -> tuple[dict[str, Any], str]:
    """The input and what is wrong with it: {} and a sentence for the model, or the input and "".

    `begun_with` is used where there is none. `cut`: the reply was ended by a limit, which may
    be why there is no text.
    """
    try:
        given = cleaned_json(json.loads(text) if text else begun_with or {})
    except (ValueError, RecursionError):
        return {}, _CUT_INPUT if cut else _NO_JSON
    if cut and not text and not given:
        return {}, _CUT_INPUT
    return (given, "") if isinstance(given, dict) else ({}, _NO_OBJECT)
