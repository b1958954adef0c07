"""Answer with JSON Lines: an object in each line, as long as the source yields."""

from collections.abc import AsyncIterator

import msgspec
from litestar.openapi.datastructures import ResponseSpec
from litestar.response import Stream

from agentchat.contracts import wire

JSON_LINES = "application/jsonl"
LINES_RESPONSE = ResponseSpec(
    str, description="One JSON object in each line.", media_type=JSON_LINES, generate_examples=False
)


def stream_lines(lines: AsyncIterator[msgspec.Struct]) -> Stream:
    """Build the response that sends the lines."""
    return Stream(_encode_lines(lines), media_type=JSON_LINES)


async def _encode_lines(lines: AsyncIterator[msgspec.Struct]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield wire.encode(line) + b"\n"
