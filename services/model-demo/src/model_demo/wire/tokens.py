"""Counting tokens by one rule: a text costs a quarter of its UTF-8 bytes, rounded up.

The counted texts are each tool's JSON, each system block and each content block; a picture costs 1,000.
With cache marks, what is marked up to the last assistant turn counts as read, the rest of it as written:
so the numbers need no memory and still look like a warm cache. Shorter prefixes than the providers' smallest
are not cached.
"""

from collections.abc import Sequence

import msgspec

from model_demo.wire.replies import Call, Part, Say, Thought
from model_demo.wire.requests import (
    Block,
    CountRequest,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

PICTURE = 1000
BYTES_A_TOKEN = 4
LEAST_CACHED = 1024


class InputUsage(msgspec.Struct, frozen=True):
    """Tokens of a request: their sum is what the request costs."""

    fresh: int
    cache_written: int
    cache_read: int

    @property
    def total(self) -> int:
        return self.fresh + self.cache_written + self.cache_read


def of_text(text: str) -> int:
    """Tokens of one text."""
    return -(-len(text.encode()) // BYTES_A_TOKEN)


def of_block(block: Block) -> int:
    """Tokens of one content block."""
    match block:
        case TextBlock(text=text) | ThinkingBlock(thinking=text) | RedactedThinkingBlock(data=text):
            return of_text(text)
        case ImageBlock():
            return PICTURE
        case DocumentBlock() | SearchResultBlock():
            return of_text(msgspec.json.encode(block).decode())
        case ToolUseBlock(name=name, input=value):
            return of_text(name + msgspec.json.encode(value).decode())
        case ToolResultBlock(content=content):
            return of_text(content) if isinstance(content, str) else sum(map(of_block, content))


def of_part(part: Part) -> int:
    """Tokens of one part, of a reply."""
    match part:
        case Thought(text=text):
            return of_text(text)
        case Say():
            return of_text(part.text)
        case Call(name=name, input_json=text):
            return of_text(name + text)


def of_request(request: CountRequest) -> InputUsage:
    """Tokens of everything that is sent, in the order tools, system, messages."""
    costs, marks, told = _segments(request)
    if request.cache_control is not None and costs:
        marks.append(len(costs))
    end = max(marks, default=0)
    cached, read = _cacheable(costs[:end]), _cacheable(costs[: min(told, end)])
    return InputUsage(fresh=sum(costs) - cached, cache_written=cached - read, cache_read=read)


def _cacheable(prefix: list[int]) -> int:
    tokens = sum(prefix)
    return tokens if tokens >= LEAST_CACHED else 0


def _segments(request: CountRequest) -> tuple[list[int], list[int], int]:
    """Costs in order; the ends of marked prefixes; where the last assistant turn before the end ends."""
    costs: list[int] = []
    marks: list[int] = []
    told = 0
    system: Sequence[Block] = (
        [TextBlock(request.system)] if isinstance(request.system, str) else request.system
    )
    for tool in request.tools:
        costs.append(of_text(msgspec.json.encode(tool).decode()))
        if tool.cache_control is not None:
            marks.append(len(costs))
    for index, message in enumerate([system, *(message.blocks() for message in request.messages)]):
        for block in message:
            costs.append(of_block(block))
            if getattr(block, "cache_control", None) is not None:
                marks.append(len(costs))
        if 0 < index < len(request.messages) and request.messages[index - 1].role == "assistant":
            told = len(costs)
    return costs, marks, told
