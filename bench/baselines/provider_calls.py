"""The two ways to the provider: texts as they come, all that came at once together."""

from collections.abc import AsyncIterator, Callable
from typing import cast

import aiohttp
import msgspec
from anthropic import AsyncAnthropic, AsyncStream
from anthropic.types import MessageParam, RawContentBlockDeltaEvent, TextDelta

Messages = list[dict[str, str]]
Stream = Callable[[str, Messages], AsyncIterator[list[str]]]
_MAX_TOKENS = 4096


def with_sdk(base_url: str) -> Stream:
    """Raw events, which is the SDK's quicker way."""
    client = AsyncAnthropic(api_key="lean", base_url=base_url, max_retries=0)

    async def texts(model: str, messages: Messages) -> AsyncIterator[list[str]]:
        stream = await client.messages.create(
            model=model,
            max_tokens=_MAX_TOKENS,
            messages=cast(list[MessageParam], messages),
            stream=True,
        )
        assert isinstance(stream, AsyncStream)
        async for event in stream:
            if isinstance(event, RawContentBlockDeltaEvent) and isinstance(event.delta, TextDelta):
                yield [event.delta.text]

    return texts


class _Delta(msgspec.Struct):
    text: str = ""


class _Event(msgspec.Struct):
    delta: _Delta


_decode = msgspec.json.Decoder(_Event).decode
_encode = msgspec.json.Encoder().encode
_DATA = b"data: "
_TEXT = b'"text_delta"'


def with_aiohttp(base_url: str) -> Stream:
    """Only the lines that carry text are decoded."""
    sessions: list[aiohttp.ClientSession] = []
    headers = {"x-api-key": "lean", "anthropic-version": "2023-06-01", "content-type": "application/json"}

    async def texts(model: str, messages: Messages) -> AsyncIterator[list[str]]:
        if not sessions:
            connector = aiohttp.TCPConnector(limit=0)
            sessions.append(aiohttp.ClientSession(base_url, connector=connector, headers=headers))
        asked = {"model": model, "max_tokens": _MAX_TOKENS, "messages": messages, "stream": True}
        async with sessions[0].post("/v1/messages", data=_encode(asked)) as answer:
            answer.raise_for_status()
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                if found := [_decode(line[6:]).delta.text for line in lines if _is_text(line)]:
                    yield found

    return texts


def _is_text(line: bytes) -> bool:
    return line.startswith(_DATA) and _TEXT in line
