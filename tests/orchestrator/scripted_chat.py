"""What a server of the Chat Completions API says, for `scripted.ScriptedProvider`."""

import asyncio
import json
from typing import Any

from tests.orchestrator.scripted import Answer, Exchange

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event; `more` are fields next to the choices, or instead of them."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def count_tokens(**usage: Any) -> bytes:
    """The chunk that tells the usage."""
    return chunk(choices=[], usage=usage or USAGE)


def calls(*pieces: dict[str, Any]) -> bytes:
    """A chunk of pieces of calls."""
    return chunk({"tool_calls": list(pieces)})


def send_chunks(*data: bytes) -> Answer:
    """A stream of just these bytes, each its own piece, ended cleanly."""

    async def answer(exchange: Exchange) -> None:
        await exchange.open_stream()
        for each in data:
            await exchange.write(each)
        await exchange.close()

    return answer


def reply_with(*pieces: str, finish: str = "stop") -> Answer:
    """A whole reply of text."""
    return send_chunks(*map(text, pieces), chunk(finish=finish), count_tokens(), DONE)


def text(piece: str) -> bytes:
    return chunk({"content": piece})


def reply_with_calls(*tools: tuple[str, str, str], said: str = "") -> Answer:
    """A reply that asks for tools: (call id, name, input as JSON text)."""
    pieces = [
        {
            "index": place,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for place, (call_id, name, arguments) in enumerate(tools)
    ]
    return send_chunks(text(said), *map(calls, pieces), chunk(finish="tool_calls"), count_tokens(), DONE)


def fail_with(status: int, error: Any, **headers: str) -> Answer:
    """An error before any stream."""

    async def answer(exchange: Exchange) -> None:
        await exchange.respond(status, "application/json", json.dumps(error).encode(), **headers)

    return answer


def break_off(*pieces: str, how: str, finish: str | None = None) -> Answer:
    """Some text, then `close` cleanly, `reset`, `hang`, only `ping`s, `garbage`; `finish` is told first."""

    async def answer(exchange: Exchange) -> None:
        await exchange.open_stream()
        for piece in pieces:
            await exchange.write(text(piece))
            await asyncio.sleep(0.005)
        if finish is not None:
            await exchange.write(chunk(finish=finish))
        match how:
            case "close":
                await exchange.close()
            case "reset":
                exchange.reset()
            case "hang":
                await exchange.left.wait()
            case "ping":
                while True:
                    await exchange.write(b": keep-alive\n\n")
                    await asyncio.sleep(0.05)
            case _:
                await exchange.write(b"data: {not json\n\n")
                await exchange.close()

    return answer
