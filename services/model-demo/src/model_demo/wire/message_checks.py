"""What the Messages API checks beyond types, in words like the API's, since people search for them."""

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
    """Raises DemoApiError 400 with the first problem."""
    found = _compaction(request, betas), _texts(request), _tools(request), _pairs(request), _limits(request)
    for problem in chain(*found):
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
    forced = request.tool_choice is not None and request.tool_choice.type in ("any", "tool")
    if request.compaction and (request.stop_sequences or request.schema or forced):
        yield "compaction: cannot be combined with parameters that shape a reply"


def _texts(request: MessageRequest) -> Iterator[str]:
    first, last = request.messages[0], request.messages[-1]
    if first.role != "user" and not any(isinstance(each, CompactionBlock) for each in first.blocks()[:1]):
        yield 'messages: first message must use the "user" role'
    for index, message in enumerate(request.messages):
        if not message.content and not (message.role == "assistant" and message is last):
            yield f"messages.{index}: all messages must have non-empty content"
        for block in message.blocks():
            if isinstance(block, TextBlock) and not block.text.strip():
                yield f"messages.{index}: text content blocks must contain non-whitespace text"
    prefill = last.blocks()[-1:] if last.role == "assistant" else []
    if any(isinstance(block, TextBlock) and block.text[-1:].isspace() for block in prefill):
        yield "messages: final assistant content cannot end with trailing whitespace"


def _tools(request: MessageRequest) -> Iterator[str]:
    names, choice = [tool.name for tool in request.tools], request.tool_choice
    for index, tool in enumerate(request.tools):
        if tool.type not in (None, "custom"):
            yield f"tools.{index}.type: only client tools are offered here, not {tool.type!r}"
        if tool.input_schema.get("type") != "object":
            yield f"tools.{index}.custom.input_schema.type: Input should be 'object'"
    if len({*names}) < len(names):
        yield "tools: Tool names must be unique."
    if choice and choice.type != "none" and not names:
        yield "tool_choice: may only be specified while providing `tools`"
    if choice and choice.type == "tool" and choice.name not in names:
        yield (
            f"Tool '{choice.name}' not found in provided tools"
            if choice.name
            else ("tool_choice.tool.name: Field required")
        )


def _pairs(request: MessageRequest) -> Iterator[str]:
    """Each call has one result, at the beginning of the next user turn; no other results."""
    turns = turns_of(request.messages)
    used: set[str] = set()
    for before, turn in pairwise([Turn(0, "user", []), *turns, Turn(len(request.messages), "user", [])]):
        calls = [block.id for block in before.blocks if isinstance(block, ToolUseBlock)]
        leading = takewhile(lambda block: isinstance(block, ToolResultBlock), turn.blocks)
        answered = [block.tool_use_id for block in leading if isinstance(block, ToolResultBlock)]
        if missing := [call_id for call_id in calls if call_id not in answered]:
            yield (
                f"messages.{turn.first}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after: {', '.join(missing)}."
            )
        yield from _misplaced(turn, calls, used)
    if not request.tools and any(
        isinstance(block, ToolUseBlock | ToolResultBlock) for turn in turns for block in turn.blocks
    ):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"


def _misplaced(turn: Turn, calls: list[str], used: set[str]) -> Iterator[str]:
    """`calls` are those of the turn before, `used` the ids of all calls so far."""
    results: set[str] = set()
    for nth, block in enumerate(turn.blocks):
        where = f"messages.{turn.first}.content.{nth}"
        match block:
            case ToolUseBlock() | ThinkingBlock() | RedactedThinkingBlock() if turn.role == "user":
                yield f"{where}: this block can only be in `assistant` messages"
            case ToolResultBlock() if turn.role == "assistant":
                yield f"{where}: `tool_result` blocks can only be in `user` messages"
            case ToolUseBlock(id=call_id):
                if call_id in used:
                    yield f"messages.{turn.first}: `tool_use` ids must be unique"
                used.add(call_id)
            case ToolResultBlock(tool_use_id=call_id):
                if call_id not in calls:
                    yield f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}"
                if call_id in results:
                    yield f"{where}: each tool_use must have a single result: {call_id}"
                results.add(call_id)


def _limits(request: MessageRequest) -> Iterator[str]:
    thinking = request.thinking
    if thinking is not None and thinking.type == "enabled":
        if thinking.budget_tokens is None:
            yield "thinking.enabled.budget_tokens: Field required"
        elif thinking.budget_tokens >= request.max_tokens:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
