"""What the Messages API checks beyond types. Its wording is the API's, since people search for it."""

from collections.abc import Iterator
from itertools import chain, pairwise, takewhile

from msgspec.structs import replace

from model_demo.wire.errors import invalid
from model_demo.wire.requests import (
    CompactionBlock,
    MessageRequest,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    signed,
    turns_of,
)

COMPACTING = "compact-2026-09-04"
"""The beta that compaction belongs to (`anthropic-beta`)."""


def check(request: MessageRequest, betas: str) -> None:
    """Raises ApiError 400 with the first thing that is wrong."""
    turns = turns_of(request.messages)
    problems = chain(
        *(_compaction(request, betas), _texts(request), _tools(request), _pairs(request, turns)),
        *(_thinking(request), _prefill(request)),
    )
    for problem in problems:
        raise invalid(problem)


def _compaction(request: MessageRequest, betas: str) -> Iterator[str]:
    blocks = [block for message in request.messages for block in message.blocks()]
    summaries = [block for block in blocks if isinstance(block, CompactionBlock)]
    if (summaries or request.compaction) and COMPACTING not in betas:
        yield f"compaction: this needs the beta {COMPACTING}"
    for block in summaries:
        if block is not blocks[0]:
            yield "messages: a `compaction` block can only be the first block of the conversation"
        if block.content is not None and replace(block, cache_control=None) != signed(block.content):
            yield "messages: the signature of the `compaction` block does not verify"
    if request.compaction is None:
        return
    forces = request.tool_choice is not None and request.tool_choice.type in ("any", "tool")
    if request.stop_sequences or request.schema or forces:
        yield "compaction: cannot be combined with parameters that shape a reply"


def _texts(request: MessageRequest) -> Iterator[str]:
    first = request.messages[0]
    summarised = any(isinstance(block, CompactionBlock) for block in first.blocks()[:1])
    if first.role != "user" and not summarised:
        yield 'messages: first message must use the "user" role'
    for index, message in enumerate(request.messages):
        is_prefill = message.role == "assistant" and index == len(request.messages) - 1
        if not message.content and not is_prefill:
            yield (
                f"messages.{index}: all messages must have non-empty content"
                " except for the optional final assistant message"
            )
        for block in message.blocks():
            if isinstance(block, TextBlock) and not block.text.strip():
                kind = "contain non-whitespace text" if block.text else "be non-empty"
                yield f"messages.{index}: text content blocks must {kind}"


def _tools(request: MessageRequest) -> Iterator[str]:
    names = [tool.name for tool in request.tools]
    for index, tool in enumerate(request.tools):
        if tool.type not in (None, "custom"):
            yield f"tools.{index}.type: only client tools are offered here, not {tool.type!r}"
        if tool.input_schema.get("type") != "object":
            yield f"tools.{index}.custom.input_schema.type: Input should be 'object'"
        if tool.name in names[:index]:
            yield "tools: Tool names must be unique."
    choice = request.tool_choice
    if choice is None:
        return
    if choice.type == "tool" and not choice.name:
        yield "tool_choice.tool.name: Field required"
    if not names and choice.type != "none":
        yield "tool_choice: may only be specified while providing `tools`"
    if choice.type == "tool" and choice.name not in names:
        yield f"Tool '{choice.name}' not found in provided tools"


def _pairs(request: MessageRequest, turns: list[Turn]) -> Iterator[str]:
    """Every call is answered; all and only the calls, at the head of the next user turn."""
    used: set[str] = set()
    for before, turn in pairwise([Turn(0, "user", []), *turns, Turn(len(request.messages), "user", [])]):
        calls = [block.id for block in before.blocks if isinstance(block, ToolUseBlock)]
        leading = _leading_results(turn)
        if missing := [call_id for call_id in calls if call_id not in leading]:
            yield (
                f"messages.{turn.first}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after: {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result`"
                " block in the next message."
            )
        yield from _misplaced(turn, calls, used)
    uses_tools = used or any(isinstance(block, ToolResultBlock) for turn in turns for block in turn.blocks)
    if uses_tools and not request.tools:
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"


def _misplaced(turn: Turn, calls: list[str], used: set[str]) -> Iterator[str]:
    """`calls` are those of the turn before, `used` the ids of all calls so far."""
    waiting = [*calls]
    for nth, block in enumerate(turn.blocks):
        where = f"messages.{turn.first}.content.{nth}"
        match block:
            case ToolUseBlock() | ThinkingBlock() | RedactedThinkingBlock() if turn.role == "user":
                yield f"messages.{turn.first}: this block can only be in `assistant` messages"
            case ToolResultBlock() if turn.role == "assistant":
                yield f"messages.{turn.first}: `tool_result` blocks can only be in `user` messages"
            case ToolUseBlock(id=call_id):
                if call_id in used:
                    yield f"messages.{turn.first}: `tool_use` ids must be unique"
                used.add(call_id)
            case ToolResultBlock(tool_use_id=call_id) if call_id in waiting:
                waiting.remove(call_id)
            case ToolResultBlock(tool_use_id=call_id):
                yield f"{where}: " + (
                    "each tool_use must have a single result. Found multiple `tool_result` blocks"
                    f" with id: {call_id}"
                    if call_id in calls
                    else f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each"
                    " `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )


def _leading_results(turn: Turn) -> list[str]:
    leading = takewhile(lambda block: isinstance(block, ToolResultBlock), turn.blocks)
    return [block.tool_use_id for block in leading if isinstance(block, ToolResultBlock)]


def _thinking(request: MessageRequest) -> Iterator[str]:
    thinking = request.thinking
    if thinking is None or thinking.type != "enabled":
        return
    if thinking.budget_tokens is None:
        yield "thinking.enabled.budget_tokens: Field required"
    elif thinking.budget_tokens >= request.max_tokens:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`"


def _prefill(request: MessageRequest) -> Iterator[str]:
    last = request.messages[-1].blocks()[-1:] if request.messages[-1].role == "assistant" else []
    if any(isinstance(block, TextBlock) and block.text[-1:].isspace() for block in last):
        yield "messages: final assistant content cannot end with trailing whitespace"
