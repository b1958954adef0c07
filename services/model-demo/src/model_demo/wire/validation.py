"""What the API checks beyond types. Its wording is kept near the API's, since people search for it."""

import re

from model_demo.wire.errors import invalid
from model_demo.wire.requests import CountRequest, MessageRequest, TextBlock
from model_demo.wire.tool_pairs import check_tool_pairs

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_LEAST_BUDGET = 1024
_MOST_MESSAGES = 100_000


def check_message(request: MessageRequest) -> None:
    """Raises ApiError 400 with the first thing that is wrong."""
    check_count(request)
    _check_numbers(request)
    _check_thinking(request)
    _check_prefill(request)


def check_count(request: CountRequest) -> None:
    """The checks that counting tokens shares. Raises ApiError 400."""
    _check_messages(request)
    _check_texts(request)
    _check_tools(request)
    _check_tool_choice(request)
    check_tool_pairs(request)


def _check_messages(request: CountRequest) -> None:
    if not request.messages:
        raise invalid("messages: at least one message is required")
    if len(request.messages) > _MOST_MESSAGES:
        raise invalid(f"messages: at most {_MOST_MESSAGES} messages are allowed")
    if request.messages[0].role != "user":
        raise invalid('messages: first message must use the "user" role')
    last = len(request.messages) - 1
    for index, message in enumerate(request.messages):
        if not message.content and not (index == last and message.role == "assistant"):
            raise invalid(
                f"messages.{index}: all messages must have non-empty content"
                " except for the optional final assistant message"
            )


def _check_texts(request: CountRequest) -> None:
    system = [] if isinstance(request.system, str) else request.system
    for index, told in enumerate(system):
        if not told.text:
            raise invalid(f"system.{index}: text content blocks must be non-empty")
    for index, message in enumerate(request.messages):
        if isinstance(message.content, str):
            if message.content and not message.content.strip():
                raise invalid(f"messages.{index}: text content blocks must contain non-whitespace text")
            continue
        for block in message.content:
            if isinstance(block, TextBlock) and not block.text:
                raise invalid("messages: text content blocks must be non-empty")
            if isinstance(block, TextBlock) and not block.text.strip():
                raise invalid("messages: text content blocks must contain non-whitespace text")


def _check_tools(request: CountRequest) -> None:
    names: set[str] = set()
    for index, tool in enumerate(request.tools):
        if tool.type not in (None, "custom"):
            raise invalid(f"tools.{index}.type: only client tools are offered here, not {tool.type!r}")
        if not _TOOL_NAME.fullmatch(tool.name):
            raise invalid(
                f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
        if tool.input_schema.get("type") != "object":
            raise invalid(f"tools.{index}.custom.input_schema.type: Input should be 'object'")
        if tool.name in names:
            raise invalid("tools: Tool names must be unique.")
        names.add(tool.name)


def _check_tool_choice(request: CountRequest) -> None:
    choice = request.tool_choice
    if choice is None:
        return
    if choice.type == "tool" and not choice.name:
        raise invalid("tool_choice.tool.name: Field required")
    if not request.tools and choice.type != "none":
        raise invalid("tool_choice: may only be specified while providing `tools`")
    if choice.type == "tool" and choice.name not in {tool.name for tool in request.tools}:
        raise invalid(f"Tool '{choice.name}' not found in provided tools")


def _check_numbers(request: MessageRequest) -> None:
    if request.max_tokens < 0:
        raise invalid("max_tokens: Input should be greater than or equal to 0")
    for name, value in (("temperature", request.temperature), ("top_p", request.top_p)):
        if value is not None and not 0 <= value <= 1:
            raise invalid(f"{name}: range: 0..1")
    if request.top_k is not None and request.top_k < 0:
        raise invalid("top_k: Input should be greater than or equal to 0")
    for sequence in request.stop_sequences:
        if not sequence.strip():
            raise invalid("stop_sequences: each stop sequence must contain non-whitespace")


def _check_thinking(request: MessageRequest) -> None:
    thinking = request.thinking
    if thinking is None or thinking.type != "enabled":
        return
    if thinking.budget_tokens is None:
        raise invalid("thinking.enabled.budget_tokens: Field required")
    if thinking.budget_tokens < _LEAST_BUDGET:
        raise invalid(
            f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_LEAST_BUDGET}"
        )
    if thinking.budget_tokens >= request.max_tokens:
        raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`")
    if request.temperature not in (None, 1):
        raise invalid("`temperature` may only be set to 1 when thinking is enabled")
    if request.tool_choice is not None and request.tool_choice.type in ("any", "tool"):
        raise invalid("Thinking may not be enabled when tool_choice forces tool use.")


def _check_prefill(request: MessageRequest) -> None:
    final = request.messages[-1]
    if final.role != "assistant":
        return
    if request.thinking is not None and request.thinking.type == "enabled":
        raise invalid("The final message may not be an assistant's when `thinking` is enabled")
    blocks = final.blocks()
    if blocks and isinstance(blocks[-1], TextBlock) and blocks[-1].text[-1:].isspace():
        raise invalid("messages: final assistant content cannot end with trailing whitespace")
