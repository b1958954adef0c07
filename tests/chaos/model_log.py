"""The model log: a server before the offline model that records each request and what came of its reply."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec

from tests.chaos.client import read_lines
from tests.chaos.records import Clock, Item, ModelCall
from tests.chaos.tail import TAG, Tail

ALREADY_SENT = "already_sent"
"""The kind of the block that asks the model to go on after a text."""
_MARKED = re.compile(r"<already_sent>(.*)</already_sent>", re.DOTALL)
_KEPT = ("content-type", "request-id", "retry-after")


def provider_key(account: str) -> str:
    return f"provider-canary-{account}-7d1f0c52"


class ModelLog:
    """Listens on `port`. `calls` are in the order of their arrival."""

    def __init__(self, port: int, model_url: str, tail: Tail, clock: Clock) -> None:
        self.calls: list[ModelCall] = []
        self._port = port
        self._model_url = model_url
        self._tail = tail
        self._clock = clock
        self._http = httpx.AsyncClient(base_url=model_url, timeout=60, trust_env=False)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=1024)
        try:
            yield
        finally:
            server.close()
            await self._http.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                first, headers = await read_lines(reader)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                await self._answer(first.split(" ")[1], headers, body, writer)
        writer.close()

    async def _answer(
        self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        call = call_of(msgspec.json.decode(body), headers, self._clock.now())
        self.calls.append(call)
        call.saved = await self._tail.has_message(call.ask)
        sent = {name: value for name, value in headers.items() if name not in ("host", "connection")}
        received = bytearray()
        try:
            async with self._http.stream("POST", path, content=body, headers=sent) as answer:
                call.status = answer.status_code
                kept = [f"{name}: {answer.headers[name]}" for name in _KEPT if name in answer.headers]
                lines = [f"HTTP/1.1 {answer.status_code} X", *kept, "transfer-encoding: chunked", "", ""]
                writer.write("\r\n".join(lines).encode())
                async for chunk in answer.aiter_raw():
                    writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    await writer.drain()
                    received += chunk
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except httpx.HTTPError:
            writer.transport.abort()  # the model broke off: so does this
        finally:
            call.ended = self._clock.now()
            _note_reply(call, bytes(received))


def call_of(body: dict[str, Any], headers: dict[str, str], at: float) -> ModelCall:
    """What a request says: whose key it has, which message it is about, and all that the model is shown."""
    key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    items = [item for message in body["messages"] for item in _items(message)]
    tags = [found[1] for kind, text in items if kind == "user" and (found := TAG.search(text))]
    account = key.removeprefix("provider-canary-").partition("-")[0]
    return ModelCall(
        ask=tags[-1] if tags else "",
        account=account,
        at=at,
        items=items,
        system=str(body.get("system", "")),
        tools=bool(body.get("tools")),
    )


def _items(message: dict[str, Any]) -> list[Item]:
    items: list[Item] = []
    for block in message["content"]:
        match block["type"]:
            case "text" if message["role"] == "user" and (sent := _MARKED.search(block["text"])):
                items.append((ALREADY_SENT, sent[1]))
            case "text":
                items.append((message["role"], block["text"]))
            case "tool_use":
                items.append(("call", block["id"]))
            case "tool_result":
                items.append(("result", f"{block['tool_use_id']} {block['content']}"))
            case other:
                items.append((other, ""))
    return items


def _note_reply(call: ModelCall, received: bytes) -> None:
    """The text and the cost of what was delivered (Messages API, streaming)."""
    tokens = 0
    for line in received.decode("utf-8", "replace").splitlines():
        if not line.startswith("data: "):
            continue
        with contextlib.suppress(msgspec.DecodeError):
            event = msgspec.json.decode(line[6:], type=dict[str, Any])
            if event["type"] == "content_block_delta":
                call.text += event["delta"].get("text", "")
            elif event["type"] == "message_start":
                tokens = _total(event["message"]["usage"])
            elif event["type"] == "message_delta":
                tokens = max(tokens, _total(event["usage"]))
            elif event["type"] == "message_stop":
                call.whole, call.tokens = True, tokens


def _total(usage: dict[str, Any]) -> int:
    return sum(value for name, value in usage.items() if name.endswith("_tokens") and isinstance(value, int))
