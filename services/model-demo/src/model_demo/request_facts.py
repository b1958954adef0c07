"""A request as the behaviours read it: who asks what, which tools are offered, what was found out already."""

import base64
import hashlib
from functools import cached_property
from itertools import takewhile
from typing import Any

import msgspec

from model_demo.wire.requests import (
    Block,
    ClientTool,
    CompactionBlock,
    InputMessage,
    MessageRequest,
    Schema,
    TextBlock,
    ToolChoice,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    turns_of,
)

_SUMMARISE = InputMessage("user", "Summarise this conversation.")
_READ_BY_PROGRAM, _BY_SCHEMA = "Your reply is read by a program:", "that satisfies this JSON Schema:\n"
_OPEN, _CLOSE = "<already_sent>", "</already_sent>"

Pair = tuple[ToolUseBlock, ToolResultBlock]


class ConversationFacts:
    """What is to be answered. `turns` end with a user's; `sent` is the text of the reply that is out already.

    That text comes by assistant prefill, or by an instruction in the last user message: a text block (or a
    complete message) with `<already_sent>...</already_sent>` in it, which is no part of the conversation. A
    compaction is answered as if the user had asked for a summary.
    """

    def __init__(self, request: MessageRequest) -> None:
        given = [*_summarised(request.messages), *([_SUMMARISE] if request.compaction else [])]
        messages, self.sent = _instructed(given) or _prefilled(given)
        system = "\n".join(block.text for block in request.system_blocks())
        self.system, schema = _without_schema(system)
        self.turns: list[Turn] = turns_of(messages)
        self.tools: list[ClientTool] = request.tools
        self.tool_choice: ToolChoice = request.tool_choice or ToolChoice()
        if request.compaction:
            self.tool_choice = ToolChoice("none")
        self.schema: Schema | None = schema or request.schema
        encoded = msgspec.json.encode([request.model, self.system, request.metadata, messages])
        self.key: bytes = hashlib.sha256(encoded).digest()
        """Names the turn to be answered, the same for every attempt at it."""

    @cached_property
    def question_at(self) -> int:
        """The index of the user turn that asks: the last one that is not results of tools."""
        asking = [at for at, turn in enumerate(self.turns) if turn.role == "user" and not _results(turn)]
        return asking[-1] if asking else 0

    @cached_property
    def question(self) -> str:
        return text_of([block for block in self.turns[self.question_at].blocks if not _is_summary(block)])

    @cached_property
    def summary(self) -> str:
        """Of what was written before the turns, where the turn that asks begins with one."""
        return text_of([block for block in self.turns[self.question_at].blocks if _is_summary(block)])

    @cached_property
    def rounds(self) -> list[list[Pair]]:
        """The rounds with tools since the question, oldest first: each call with its result."""
        since = self.turns[self.question_at + 1 :]
        return [
            [
                (call, _results(answering)[call.id])
                for call in asking.blocks
                if isinstance(call, ToolUseBlock) and call.id in _results(answering)
            ]
            for asking, answering in zip(since[::2], since[1::2], strict=False)
        ]

    def id(self, *of: object) -> str:
        """The letters of an id of the reply or of a part of it: the same for the same request."""
        digest = hashlib.sha256(self.key + repr(of).encode()).digest()
        return "01" + base64.b32encode(digest).decode()[:22]

    @property
    def may_call(self) -> bool:
        """Whether tools are offered and not forbidden."""
        return bool(self.tools) and self.tool_choice.type != "none"


def text_of(blocks: list[Block]) -> str:
    """The text blocks, joined by line breaks."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def _is_summary(block: Block) -> bool:
    return isinstance(block, TextBlock) and block.text.endswith("</summary>")


def _summarised(messages: list[InputMessage]) -> list[InputMessage]:
    """With a summary of the API's own at their head as the user's text that it replaces."""
    head = messages[0].blocks()
    if not head or not isinstance(head[0], CompactionBlock):
        return messages
    summary: list[Block] = []
    if head[0].content:
        summary.append(TextBlock(f"<summary>\n{head[0].content}\n</summary>"))
    heads = (InputMessage("user", summary), InputMessage(messages[0].role, head[1:]))
    return [*(message for message in heads if message.content), *messages[1:]]


def _results(turn: Turn) -> dict[str, ToolResultBlock]:
    return {block.tool_use_id: block for block in turn.blocks if isinstance(block, ToolResultBlock)}


def _without_schema(system: str) -> tuple[str, Schema | None]:
    """The system prompt, and what its end asks the reply to be, where the wire has no field that says it."""
    persona, _, asked = system.rpartition(_READ_BY_PROGRAM)
    _, marker, schema = asked.partition(_BY_SCHEMA)
    try:
        return (
            (persona.rstrip(), msgspec.json.decode(schema, type=dict[str, Any])) if marker else (system, None)
        )
    except msgspec.DecodeError:
        return system, None


def _prefilled(messages: list[InputMessage]) -> tuple[list[InputMessage], str]:
    last = [*takewhile(lambda message: message.role == "assistant", reversed(messages))]
    sent = "".join(text_of(message.blocks()) for message in reversed(last))
    return messages[: len(messages) - len(last)], sent


def _instructed(messages: list[InputMessage]) -> tuple[list[InputMessage], str] | None:
    """Nothing where no instruction stands, or no user turn would be left to answer without it."""
    blocks = messages[-1].blocks() if messages[-1].role == "user" else []
    for block in reversed(blocks):
        text = block.text if isinstance(block, TextBlock) else ""
        start, end = text.find(_OPEN) + len(_OPEN), text.rfind(_CLOSE)
        if not len(_OPEN) <= start <= end:
            continue
        sent = text[start:end]
        left: list[Block] = [other for other in blocks if other is not block]
        kept = [*messages[:-1], *([InputMessage("user", left)] if left else [])]
        if kept and kept[-1].role == "assistant" and _is_partial(kept[-1].blocks(), sent):
            kept.pop()
        return (kept, sent) if kept and kept[-1].role == "user" else None
    return None


def _is_partial(blocks: list[Block], sent: str) -> bool:
    """Whether an assistant message is the interrupted text itself, a second time."""
    calls = any(isinstance(block, ToolUseBlock) for block in blocks)
    return not calls and sent.strip().startswith(text_of(blocks).strip())
