"""Going on from a text already sent: by assistant prefill, or by an instruction in the last user message.

The instruction is a text block (or a whole message) with `<already_sent>...</already_sent>` in it; the block
is an order to the model and no part of the conversation. Either way the model works out what it would say in
full, and says what is missing.
"""

from collections.abc import Sequence

import msgspec

from model_demo.wire.replies import Call, Part, Reply, Say
from model_demo.wire.requests import Message, TextBlock, ToolUseBlock

_OPEN, _CLOSE = "<already_sent>", "</already_sent>"


class Split(msgspec.Struct, frozen=True):
    """`messages` end with a user's, and are to be answered; `sent` is the text that is out already."""

    messages: tuple[Message, ...]
    sent: str = ""


def split(messages: Sequence[Message]) -> Split:
    """Tell the conversation from the continuation that its end may hold. The first message is a user's."""
    if messages[-1].role == "assistant":
        asked = len(messages)
        while messages[asked - 1].role == "assistant":
            asked -= 1
        return Split(tuple(messages[:asked]), "".join(map(_text, messages[asked:])))
    return _instructed(messages) or Split(tuple(messages))


def _instructed(messages: Sequence[Message]) -> Split | None:
    """Nothing where no instruction stands, or no user turn would be left to answer without it."""
    blocks = messages[-1].blocks()
    for place in range(len(blocks) - 1, -1, -1):
        block = blocks[place]
        sent = _marked(block.text) if isinstance(block, TextBlock) else None
        if sent is None:
            continue
        left = blocks[:place] + blocks[place + 1 :]
        kept = [*messages[:-1], Message("user", left)] if left else list(messages[:-1])
        if kept and kept[-1].role == "assistant" and _is_partial(kept[-1], sent):
            kept.pop()
        return Split(tuple(kept), sent) if kept and kept[-1].role == "user" else None
    return None


def _marked(text: str) -> str | None:
    """What stands between the first opening mark and the last closing one, as it is."""
    start, end = text.find(_OPEN), text.rfind(_CLOSE)
    return text[start + len(_OPEN) : end] if 0 <= start < end else None


def _is_partial(message: Message, sent: str) -> bool:
    """Whether an assistant message is the interrupted text itself, told a second time."""
    if any(isinstance(block, ToolUseBlock) for block in message.blocks()):
        return False
    return sent.strip().startswith(_text(message).strip())


def _text(message: Message) -> str:
    return "".join(block.text for block in message.blocks() if isinstance(block, TextBlock))


def go_on_from(reply: Reply, sent: str) -> Reply:
    """The reply without what was sent. Where `sent` is not its beginning, it joins on where they overlap."""
    if not sent:
        return reply
    said = "".join(part.text for part in reply.parts if isinstance(part, Say))
    skip = len(sent) if said.startswith(sent) else _overlap(sent, said)
    parts = _without(reply.parts, skip)
    if not skip and parts and not sent[-1:].isspace():
        parts = _spaced(parts)
    return msgspec.structs.replace(reply, parts=tuple(parts))


def _overlap(sent: str, said: str) -> int:
    """The length of the longest beginning of `said` that `sent` ends with, in linear time."""
    row = said + "\0" + sent[-len(said) :] if said else ""
    borders = [0] * len(row)
    for place in range(1, len(row)):
        length = borders[place - 1]
        while length and row[place] != row[length]:
            length = borders[length - 1]
        borders[place] = length + (row[place] == row[length])
    return borders[-1] if borders else 0


def _without(parts: Sequence[Part], skip: int) -> list[Part]:
    kept: list[Part] = []
    for part in parts:
        if not isinstance(part, Say):
            kept.append(part)
            continue
        pieces: list[str] = []
        for piece in part.pieces:
            pieces.append(piece[skip:])
            skip = max(0, skip - len(piece))
        if left := tuple(filter(None, pieces)):
            kept.append(Say(left))
    return kept


def _spaced(parts: Sequence[Part]) -> list[Part]:
    first, *others = parts
    if isinstance(first, Call) or not isinstance(first, Say):
        return list(parts)
    return [Say((" " + first.pieces[0], *first.pieces[1:])), *others]
