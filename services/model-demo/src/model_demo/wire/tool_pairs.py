"""Every tool_use of an assistant turn is answered, all and only, at the head of the next user turn."""

from collections.abc import Sequence
from typing import NamedTuple

from model_demo.wire import signatures
from model_demo.wire.errors import invalid
from model_demo.wire.requests import (
    Block,
    CountRequest,
    Message,
    RedactedThinkingBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)


class Turn(NamedTuple):
    """Neighbouring messages of one role; `place` is the first one's."""

    place: int
    role: str
    blocks: list[Block]


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    """The messages with neighbours of one role joined, as the model reads them."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        if turns and turns[-1].role == message.role:
            turns[-1].blocks.extend(message.blocks())
        else:
            turns.append(Turn(index, message.role, list(message.blocks())))
    return turns


def check_tool_pairs(request: CountRequest) -> None:
    """Raises ApiError 400 where a call lacks its result, a result its call, or the request its tools."""
    turns = turns_of(request.messages)
    _check_roles(turns)
    _check_ids(turns)
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        _check_answered(turn, following)
    for previous, turn in zip([None, *turns[:-1]], turns, strict=True):
        _check_asked(previous, turn)
    uses_tools = any(isinstance(b, ToolUseBlock | ToolResultBlock) for t in turns for b in t.blocks)
    if uses_tools and not request.tools:
        raise invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
    _check_thinking_kept(request, turns)


def _check_roles(turns: list[Turn]) -> None:
    for turn in turns:
        for block in turn.blocks:
            if turn.role == "user" and isinstance(
                block, ToolUseBlock | ThinkingBlock | RedactedThinkingBlock
            ):
                raise invalid(f"messages.{turn.place}: this block can only be in `assistant` messages")
            if turn.role == "assistant" and isinstance(block, ToolResultBlock):
                raise invalid(f"messages.{turn.place}: `tool_result` blocks can only be in `user` messages")


def _check_ids(turns: list[Turn]) -> None:
    seen: set[str] = set()
    for turn in turns:
        for block in turn.blocks:
            if isinstance(block, ToolUseBlock):
                if block.id in seen:
                    raise invalid(f"messages.{turn.place}: `tool_use` ids must be unique")
                seen.add(block.id)


def _check_answered(turn: Turn, following: Turn | None) -> None:
    asked = [block.id for block in turn.blocks if isinstance(block, ToolUseBlock)]
    answered = _leading_results(following) if following else []
    missing = [call_id for call_id in asked if call_id not in answered]
    if missing:
        raise invalid(
            f"messages.{turn.place}: `tool_use` ids were found without `tool_result` blocks immediately"
            f" after: {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result`"
            " block in the next message."
        )


def _check_asked(previous: Turn | None, turn: Turn) -> None:
    asked = {block.id for block in (previous.blocks if previous else []) if isinstance(block, ToolUseBlock)}
    answered: set[str] = set()
    for nth, block in enumerate(turn.blocks):
        if not isinstance(block, ToolResultBlock):
            continue
        if block.tool_use_id not in asked:
            raise invalid(
                f"messages.{turn.place}.content.{nth}: unexpected `tool_use_id` found in `tool_result`"
                f" blocks: {block.tool_use_id}. Each `tool_result` block must have a corresponding"
                " `tool_use` block in the previous message."
            )
        if block.tool_use_id in answered:
            raise invalid(
                f"messages.{turn.place}.content.{nth}: each tool_use must have a single result."
                f" Found multiple `tool_result` blocks with id: {block.tool_use_id}"
            )
        answered.add(block.tool_use_id)


def _leading_results(turn: Turn) -> list[str]:
    found: list[str] = []
    for block in turn.blocks:
        if not isinstance(block, ToolResultBlock):
            break
        found.append(block.tool_use_id)
    return found


def _check_thinking_kept(request: CountRequest, turns: list[Turn]) -> None:
    """Thinking goes back unchanged, and leads the assistant turn whose tools are being answered."""
    for turn in turns:
        for nth, block in enumerate(turn.blocks):
            if isinstance(block, ThinkingBlock) and not signatures.fits(block.thinking, block.signature):
                raise invalid(f"messages.{turn.place}.content.{nth}: Invalid `signature` in `thinking` block")
    if request.thinking is None or request.thinking.type != "enabled" or len(turns) < 2:
        return
    asking, answering = turns[-2], turns[-1]
    if not _leading_results(answering) or not asking.blocks:
        return
    if not isinstance(asking.blocks[0], ThinkingBlock | RedactedThinkingBlock):
        raise invalid(
            f"messages.{asking.place}.content.0: Expected `thinking` or `redacted_thinking`. When `thinking`"
            " is enabled, the assistant message before the last `tool_result` blocks must start with a"
            " thinking block."
        )
