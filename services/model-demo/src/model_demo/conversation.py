"""A request as the behaviours read it: who asks what, which tools are offered, what was found out already."""

import hashlib

import msgspec

from model_demo.continuation import Split
from model_demo.wire.requests import (
    Block,
    Json,
    MessageRequest,
    TextBlock,
    Tool,
    ToolChoice,
    ToolResultBlock,
    ToolUseBlock,
)
from model_demo.wire.tool_pairs import Turn, turns_of


class Round(msgspec.Struct, frozen=True):
    """One exchange with tools: the calls of an assistant turn, each with its result."""

    calls: tuple[ToolUseBlock, ...]
    results: tuple[ToolResultBlock, ...]

    def pairs(self) -> list[tuple[ToolUseBlock, ToolResultBlock]]:
        """Each call with its result, in the order of the calls."""
        results = {result.tool_use_id: result for result in self.results}
        return [(call, results[call.id]) for call in self.calls]


class Conversation(msgspec.Struct, frozen=True):
    """What is to be answered, without any continuation. `turns` end with a user's turn.

    `key` names the turn to be answered, the same for every attempt at it.
    """

    system: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...]
    tool_choice: ToolChoice
    schema: dict[str, Json] | None
    thinking: bool
    key: bytes

    @property
    def question_at(self) -> int:
        """The place of the user turn that asks: the last one that is not results of tools."""
        for place in range(len(self.turns) - 1, -1, -1):
            if self.turns[place].role == "user" and not _results(self.turns[place].blocks):
                return place
        return 0

    @property
    def question(self) -> str:
        return text_of(self.turns[self.question_at].blocks)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds with tools since the question, oldest first."""
        since = self.turns[self.question_at + 1 :]
        return tuple(
            Round(_calls(asking.blocks), _results(answering.blocks))
            for asking, answering in zip(since[::2], since[1::2], strict=False)
        )

    @property
    def may_call(self) -> bool:
        """Whether tools are offered and not forbidden."""
        return bool(self.tools) and self.tool_choice.type != "none"


def read(request: MessageRequest, split: Split) -> Conversation:
    """The conversation of a checked request. Without a tool_choice the model decides by itself."""
    system = request.system if isinstance(request.system, str) else text_of(list(request.system))
    return Conversation(
        system=system,
        turns=tuple(turns_of(split.messages)),
        tools=tuple(request.tools),
        tool_choice=request.tool_choice or ToolChoice(),
        schema=request.schema(),
        thinking=request.thinking is not None and request.thinking.type in ("enabled", "adaptive"),
        key=_key(request, system, split),
    )


def text_of(blocks: list[Block] | list[TextBlock]) -> str:
    """The text blocks, joined by line breaks."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def result_text(result: ToolResultBlock) -> str:
    """What a tool gave back, as text."""
    if isinstance(result.content, str):
        return result.content
    return "\n".join(block.text for block in result.content if isinstance(block, TextBlock))


def _key(request: MessageRequest, system: str, split: Split) -> bytes:
    told = msgspec.json.encode([request.model, system, request.metadata, split.messages])
    return hashlib.sha256(told).digest()


def _calls(blocks: list[Block]) -> tuple[ToolUseBlock, ...]:
    return tuple(block for block in blocks if isinstance(block, ToolUseBlock))


def _results(blocks: list[Block]) -> tuple[ToolResultBlock, ...]:
    return tuple(block for block in blocks if isinstance(block, ToolResultBlock))
