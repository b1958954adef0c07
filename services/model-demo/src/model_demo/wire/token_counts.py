"""Counting tokens by one rule: a text costs a quarter of its UTF-8 bytes, rounded up.

The counted texts are each tool's JSON, each system block and each content block. With cache marks, what is
marked up to the last assistant turn counts as read, the rest of it as written: so the numbers need no memory
and still look like a warm cache. Shorter prefixes than the providers' smallest are not cached.
"""

import msgspec

from model_demo.wire.replies import InputUsage, PlannedToolCall
from model_demo.wire.requests import (
    Block,
    CompactionBlock,
    MessageRequest,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

BYTES_A_TOKEN = 4
_LEAST_CACHED = 1024


def of_text(text: str) -> int:
    return -(-len(text.encode()) // BYTES_A_TOKEN)


def of_call(call: PlannedToolCall) -> int:
    return of_text(call.name + call.input_json)


def of_request(request: MessageRequest) -> InputUsage:
    """Tokens of everything that is sent, in the order tools, system, messages."""
    costs = [of_text(msgspec.json.encode(tool).decode()) for tool in request.tools]
    marked = [at for at, tool in enumerate(request.tools, 1) if tool.cache_control]
    answered = 0
    system: list[Block] = [*request.system_blocks()]
    turns = [("system", system), *((message.role, message.blocks()) for message in request.messages)]
    for index, (role, blocks) in enumerate(turns):
        for block in blocks:
            costs.append(_of_block(block))
            if block.cache_control:
                marked.append(len(costs))
        if role == "assistant" and index < len(turns) - 1:
            answered = len(costs)
    end = len(costs) if request.cache_control else max(marked, default=0)
    cached, read = _cacheable(costs[:end]), _cacheable(costs[: min(answered, end)])
    return InputUsage(fresh=sum(costs) - cached, cache_written=cached - read, cache_read=read)


def _cacheable(prefix: list[int]) -> int:
    return tokens if (tokens := sum(prefix)) >= _LEAST_CACHED else 0


def _of_block(block: Block) -> int:
    match block:
        case TextBlock(text=text):
            return of_text(text)
        case ToolUseBlock(name=name, input=value):
            return of_text(name + msgspec.json.encode(value).decode())
        case CompactionBlock(content=str(text)):
            return of_text(text)
        case ToolResultBlock():
            return sum(map(of_text, block.texts()))
    return 0
