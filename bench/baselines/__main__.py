"""`python -m bench.baselines sdk|aiohttp DATABASE_URL PROVIDER_URL`: serves one form; prints its port."""

import gc
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from typing import cast

import aiohttp
import asyncpg
import msgspec
import uvicorn
import uvloop
from anthropic import AsyncAnthropic, AsyncStream
from anthropic.types import MessageParam, RawContentBlockDeltaEvent, TextDelta
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

Messages = list[dict[str, str]]
Stream = Callable[[str, Messages], AsyncIterator[list[str]]]
_MAX_TOKENS = 4096

_TABLE = """
CREATE TABLE IF NOT EXISTS chat_messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS chat_messages_of ON chat_messages (conversation_id, id);
"""
_SAVE = "INSERT INTO chat_messages (conversation_id, role, content) VALUES ($1, $2, $3)"


def stream_with_sdk(base_url: str) -> Stream:
    """Raw events, which is the SDK's quicker way."""
    client = AsyncAnthropic(api_key="lean", base_url=base_url, max_retries=0)

    async def stream_texts(model: str, messages: Messages) -> AsyncIterator[list[str]]:
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

    return stream_texts


class _Delta(msgspec.Struct):
    text: str = ""


class _Event(msgspec.Struct):
    delta: _Delta


_decode = msgspec.json.Decoder(_Event).decode
_DATA = b"data: "
_TEXT = b'"text_delta"'


def stream_with_aiohttp(base_url: str) -> Stream:
    """Stream with aiohttp, and decode only the lines that carry text."""
    sessions: list[aiohttp.ClientSession] = []
    headers = {"x-api-key": "lean", "anthropic-version": "2023-06-01", "content-type": "application/json"}

    async def stream_texts(model: str, messages: Messages) -> AsyncIterator[list[str]]:
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

    return stream_texts


def _is_text(line: bytes) -> bool:
    return line.startswith(_DATA) and _TEXT in line


_FORMS = {"sdk": stream_with_sdk, "aiohttp": stream_with_aiohttp}
_encode = msgspec.json.Encoder().encode


class ChatRequest(BaseModel):
    """The body of a chat request."""

    message: str
    model: str


def build(pool: asyncpg.Pool, stream: Stream) -> FastAPI:
    """Build the baseline: save the message, stream the reply, save the reply."""
    app = FastAPI(openapi_url=None)

    async def chat(asked: ChatRequest) -> StreamingResponse:
        conversation = uuid.uuid4()
        await pool.execute(_SAVE, conversation, "user", asked.message)
        return StreamingResponse(_read_events(asked, conversation), media_type="text/event-stream")

    async def _read_events(asked: ChatRequest, conversation: uuid.UUID) -> AsyncIterator[bytes]:
        yield _build_event({"type": "meta", "conversation_id": conversation})
        parts: list[str] = []
        async for texts in stream(asked.model, [{"role": "user", "content": asked.message}]):
            parts += texts
            yield b"".join(_build_event({"type": "delta", "content": text}) for text in texts)
        await pool.execute(_SAVE, conversation, "assistant", "".join(parts))
        yield _build_event({"type": "done", "conversation_id": conversation})

    app.add_api_route("/v1/chat/stream", chat, methods=["POST"], response_model=None)
    return app


def _build_event(fields: dict[str, object]) -> bytes:
    return b"data: " + _encode(fields) + b"\n\n"


async def _serve(form: str, database_url: str, provider_url: str) -> None:
    pool = await asyncpg.create_pool(database_url, min_size=10, max_size=10)
    await pool.execute(_TABLE)
    app = build(pool, _FORMS[form](provider_url))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    settings = uvicorn.Config(app, log_level="error", access_log=False, http="httptools", lifespan="off")
    gc.freeze()
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - to who started it
    await uvicorn.Server(settings).serve(sockets=[listener])


if __name__ == "__main__":
    uvloop.run(_serve(*sys.argv[1:4]))
