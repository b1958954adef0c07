"""A model provider on loopback that does what a test tells it, call by call."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

Answer = Callable[["Exchange"], Coroutine[None, None, None]]
_SECONDS = 40.0


class Exchange:
    """One call: what was asked, and the means to answer it, whole or not."""

    def __init__(
        self, line: str, headers: dict[str, str], body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        self.line = line
        self.headers = headers
        self.body = body
        self.left = asyncio.Event()
        self._writer = writer
        self._block = -1

    @property
    def system(self) -> str:
        """The system prompt."""
        return "".join(block["text"] for block in self.body.get("system", ()))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages without their breakpoints."""
        unmarked: list[dict[str, Any]] = json.loads(json.dumps(self.body["messages"]))
        for message in unmarked:
            for block in (each for each in message["content"] or () if isinstance(each, dict)):
                block.pop("cache_control", None)
        return unmarked

    @property
    def last_text(self) -> str:
        """The text of the last message's last block."""
        return str(self.body["messages"][-1]["content"][-1].get("text", ""))

    async def status(self, status: int, kind: str, message: str = "no", **headers: str) -> None:
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        await self.respond(status, "application/json", body, **headers)

    async def respond(self, status: int, media_type: str, body: bytes, **headers: str) -> None:
        await self.head(status, media_type, content_length=str(len(body)), **headers)
        self._writer.write(body)
        await self._writer.drain()

    async def head(self, status: int, media_type: str, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-type: {media_type}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        await self._writer.drain()

    async def open_stream(self) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    async def begin(self, **usage: int) -> None:
        await self.open_stream()
        message = {"id": "msg_1", "model": "m", "usage": usage or {"input_tokens": 10, "output_tokens": 1}}
        await self.event("message_start", message=message)

    async def event(self, kind: str, **fields: Any) -> None:
        data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
        await self.write(f"event: {kind}\ndata: {data}\n\n".encode())

    async def write(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    async def block(self, **content: Any) -> None:
        self._block += 1
        await self.event("content_block_start", index=self._block, content_block=content)

    async def piece(self, **delta: Any) -> None:
        await self.event("content_block_delta", index=self._block, delta=delta)

    async def text(self, *pieces: str) -> None:
        """One text block; each piece reaches the reader by itself."""
        await self.block(type="text", text="")
        for piece in pieces:
            await self.piece(type="text_delta", text=piece)
            await asyncio.sleep(0.005)
        await self.event("content_block_stop", index=self._block)

    async def tool(self, call_id: str, name: str, arguments: str) -> None:
        await self.block(type="tool_use", id=call_id, name=name, input={})
        half = len(arguments) // 2
        for piece in (arguments[:half], arguments[half:]):
            await self.piece(type="input_json_delta", partial_json=piece)
        await self.event("content_block_stop", index=self._block)

    async def end(self, stop_reason: str = "end_turn", **usage: int) -> None:
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        await self.event("message_delta", delta=delta, usage=usage or {"output_tokens": 5})
        await self.event("message_stop")
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def close(self) -> None:
        """A clean end of the body, however little was said."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def wait_until_left(self) -> None:
        """Until its client has closed the connection. Raises TimeoutError."""
        await asyncio.wait_for(self.left.wait(), _SECONDS)

    def reset(self) -> None:
        self._writer.transport.abort()


class ScriptedProvider:
    """`will` sets the answers to the next calls; the last one is given for ever."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[Exchange] = []
        self._answers: list[Answer] = []

    def will(self, *answers: Answer) -> None:
        self.calls.clear()
        self._answers = list(answers)

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator["ScriptedProvider"]:
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await self._serve(reader, writer)
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # aborted transports are closed in the loop's next turn

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            first, *head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
            headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head}
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            exchange = Exchange(first, headers, body, writer)
            self.calls.append(exchange)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            answering = asyncio.create_task(answer(exchange))
            leaving = asyncio.create_task(_left(reader))
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)
                if isinstance(answering.exception(), OSError):  # it noticed first
                    exchange.left.set()
                answering.result()
            else:
                exchange.left.set()
                answering.cancel()
                return


async def _left(reader: asyncio.StreamReader) -> None:
    """The client closed its connection, or reset it."""
    while not reader.at_eof() and reader.exception() is None:  # noqa: ASYNC110 - streams have no event for it
        await asyncio.sleep(0.01)


def reply_with(*pieces: str, stop_reason: str = "end_turn") -> Answer:
    """A whole reply of text."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.text(*pieces)
        await exchange.end(stop_reason)

    return answer


def is_holding(gate: asyncio.Event, before: str, after: str = " and the rest") -> Answer:
    """A whole reply of text that stands still after `before` until the gate opens."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.text(before)
        await gate.wait()
        await exchange.text(after)
        await exchange.end()

    return answer


def reply_with_calls(*tools: tuple[str, str, str], text: str = "") -> Answer:
    """A reply that asks for tools: (call id, name, input as JSON text)."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        if text:
            await exchange.text(text)
        for tool in tools:
            await exchange.tool(*tool)
        await exchange.end("tool_use")

    return answer


def fail_with(status: int, kind: str, message: str = "no", **headers: str) -> Answer:
    """An error before any stream."""
    return lambda exchange: exchange.status(status, kind, message, **headers)


def send_page(text: str) -> Answer:
    """Status 200 with a page that is no stream, as proxies give."""

    async def answer(exchange: Exchange) -> None:
        await exchange.respond(200, "text/html", text.encode())

    return answer


def send_compressed(status: int) -> Answer:
    """A body that says it is compressed, and is not."""

    async def answer(exchange: Exchange) -> None:
        await exchange.respond(status, "application/json", b"not gzip", content_encoding="gzip")

    return answer


def events(data: bytes) -> Answer:
    """A stream of just these bytes."""

    async def answer(exchange: Exchange) -> None:
        await exchange.respond(200, "text/event-stream", data)

    return answer


def break_off(*pieces: str, how: str, stop_reason: str | None = None) -> Answer:
    """Some text, then `close` cleanly, `reset`, `hang`, only `ping`s, `garbage`, or an error of that type.

    With `stop_reason` that is told first.
    """

    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        if pieces:
            await exchange.text(*pieces)
        if stop_reason is not None:
            await exchange.event("message_delta", delta={"stop_reason": stop_reason})
        match how:
            case "close":
                await exchange.close()
            case "reset":
                exchange.reset()
            case "hang":
                await exchange.left.wait()
            case "ping":
                while True:
                    await exchange.event("ping")
                    await asyncio.sleep(0.05)
            case "garbage":
                await exchange.write(b"data: {not json\n\n")
                await exchange.close()
            case kind:
                await exchange.event("error", error={"type": kind, "message": "broken"})
                await exchange.close()

    return answer
