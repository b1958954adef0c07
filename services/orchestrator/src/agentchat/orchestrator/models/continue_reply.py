"""Going on with a reply that was interrupted after some of its text had been sent.

Where the model takes an assistant prefill it continues that; else an instruction asks it to. Which of
them take one, each provider says itself.
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
    """The messages, which end with the user's, and the order to continue after `sent`.

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
    """The blocks in their order, with the text that was emitted: the reply's own joined to what was sent
    before.

    From the last on each text block has as much of it as it had, and the first one what is left.
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
    """Where the new text joins what was sent: takes out what the model says a second time.

    That is white space which the sent text ends with, and all of the sent text, should the model begin
    again in spite of its instruction. Until that is clear, text is held back.
    """

    def __init__(self, sent: str) -> None:
        self._sent = sent
        self._space = sent[len(sent.rstrip()) :]
        self._find_tools_needing_approval: str | None = ""

    def join(self, text: str) -> str:
        """What of `text` continues it."""
        if self._find_tools_needing_approval is None:
            return text
        self._find_tools_needing_approval += text
        if self._may_be_repeating(self._find_tools_needing_approval):
            return ""
        return self.flush()

    def flush(self) -> str:
        """What was held back, once nothing follows or it is clear what it is."""
        held, self._find_tools_needing_approval = self._find_tools_needing_approval or "", None
        if len(self._sent) >= _REPEATED and held.startswith(self._sent):
            return held[len(self._sent) :]
        return held[_count_common(held, self._space) :]

    def _may_be_repeating(self, held: str) -> bool:
        if not held.strip():
            return len(held) < len(self._space)
        return len(self._sent) >= _REPEATED and len(held) < len(self._sent) and self._sent.startswith(held)


_REPEATED = 24
"""Shorter texts may well begin what follows them."""


def _count_common(left: str, right: str) -> int:
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += 1
    return length
