"""Continue a reply that was interrupted after some of its text had been sent.

A model that accepts an assistant prefill continues that; other models get an instruction. Each provider knows
which models accept one.
"""

from typing import Any

Block = dict[str, Any]

_THINKING = ("thinking", "redacted_thinking")
_INSTRUCTION = (
    "Your reply to the message above was interrupted after the text between the tags had reached the user. "
    "Write only what comes right after the last character of that text. Do not repeat any of it, do not "
    "mention the interruption, and begin with a space or a line break only where one belongs."
)


def add_continuation(messages: list[dict[str, Any]], sent: str, *, prefill: bool) -> list[dict[str, Any]]:
    """Add the order to continue after `sent` to the messages, the last of which is the user's.

    A prefill may not end in white space, so that is left out; `Seam` takes care of it.
    """
    kept = sent.rstrip()
    if not kept:
        return messages
    if prefill:
        return [*messages, _build_message("assistant", kept)]
    return [*messages, _build_message("user", f"<already_sent>{sent}</already_sent>\n\n{_INSTRUCTION}")]


def _build_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def replace_text(blocks: tuple[Block, ...], emitted: str) -> tuple[Block, ...]:
    """Return the blocks with `emitted` as their text, which includes what was sent before.

    Counted from the last one, each block keeps the length of its text; the first text block gets the rest.
    """
    kept = list(blocks)
    if not any(block["type"] == "text" for block in kept):
        begin = next((place for place, block in enumerate(kept) if block["type"] not in _THINKING), len(kept))
        kept.insert(begin, {"type": "text", "text": ""})
    first, *others = (place for place, block in enumerate(kept) if block["type"] == "text")
    end = len(emitted)
    for place in reversed(others):
        begin = max(0, end - len(kept[place]["text"]))
        kept[place] = {"type": "text", "text": emitted[begin:end]}
        end = begin
    kept[first] = {"type": "text", "text": emitted[:end]}
    return tuple(block for block in kept if block["type"] != "text" or block["text"])


class Seam:
    """The seam between text that was sent and its continuation: removes what the model repeats.

    The model repeats the white space at the end of the sent text, or all of that text if it starts over. Text
    is held back until that is clear.
    """

    def __init__(self, sent: str) -> None:
        self._sent = sent
        self._space = sent[len(sent.rstrip()) :]
        self._held: str | None = ""

    def join(self, text: str) -> str:
        """Return the part of `text` that continues what was sent."""
        if self._held is None:
            return text
        self._held += text
        if self._may_be_repeating(self._held):
            return ""
        return self.flush()

    def flush(self) -> str:
        """Return the text that was held back."""
        held, self._held = self._held or "", None
        if len(self._sent) >= _REPEATED and held.startswith(self._sent):
            return held[len(self._sent) :]
        return held[_count_common(held, self._space) :]

    def _may_be_repeating(self, held: str) -> bool:
        if not held.strip():
            return len(held) < len(self._space)
        return len(self._sent) >= _REPEATED and len(held) < len(self._sent) and self._sent.startswith(held)


_REPEATED = 24
"""Minimum length of a repetition: shorter texts may also start what follows them."""


def _count_common(left: str, right: str) -> int:
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += 1
    return length
