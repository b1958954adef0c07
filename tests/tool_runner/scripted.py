"""An MCP server written by hand over raw sockets, so that it can answer in every wrong way there is."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

Json = dict[str, Any]
_SECONDS = 40.0


class Call:
    """One HTTP request, and the socket to answer it on."""

    def __init__(
        self, method: str, headers: dict[str, str], message: Json, writer: asyncio.StreamWriter
    ) -> None:
        self.method = method
        self.headers = headers
        self.message = message
        self.writer = writer

    @property
    def rpc(self) -> str:
        return str(self.message.get("method", ""))

    @property
    def tool(self) -> str:
        return str(self.message.get("params", {}).get("name", ""))

    @property
    def arguments(self) -> Json:
        found: Json = self.message.get("params", {}).get("arguments", {})
        return found

    async def send_raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(
        self, status: int, body: bytes = b"", content_type: str = "application/json", **headers: str
    ) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send_raw("\r\n".join([*lines, "", ""]).encode() + body)

    async def send_result(self, result: Json, **headers: str) -> None:
        message = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        await self.reply(200, json.dumps(message).encode(), **headers)

    async def send_text(self, text: str, *, is_error: bool = False) -> None:
        await self.send_result({"content": [{"type": "text", "text": text}], "isError": is_error})

    async def send_error(self, code: int, message: str, status: int = 200) -> None:
        body = {"jsonrpc": "2.0", "id": self.message.get("id"), "error": {"code": code, "message": message}}
        await self.reply(status, json.dumps(body).encode())

    async def begin_events(self) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        await self.send_raw(head.encode())


OnCall = Callable[[Call], Awaitable[None]]


def make_tool(name: str, *, schema: Json | None = None, **hints: bool) -> Json:
    """Build an entry of tools/list; hints such as readOnlyHint=True."""
    listed: Json = {"name": name, "description": f"Does {name}.", "inputSchema": schema or {"type": "object"}}
    return listed | {"annotations": hints} if hints else listed


class ScriptedServer:
    """Speaks MCP with a handshake and, if `session_id` is set, a session. `on_call` answers tools/call."""

    def __init__(
        self,
        on_call: OnCall,
        tools: Sequence[Json] = (),
        *,
        version: str = "2024-11-05",
        tls: ssl.SSLContext | None = None,
        on_any: Callable[[Call], Awaitable[bool]] | None = None,
    ) -> None:
        self.on_call = on_call
        self.on_any = on_any
        self.tools = list(tools) or [make_tool("echo", readOnlyHint=True)]
        self.version = version
        self.tls = tls
        self.session_id: str | None = None
        self.seen: list[Call] = []
        self.clients: list[Callable[[], Awaitable[None]]] = []
        self._news = asyncio.Condition()
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def wait_for_request(self, rpc: str) -> Call:
        """Wait for the first request of that kind."""
        async with asyncio.timeout(_SECONDS), self._news:
            await self._news.wait_for(lambda: bool(self.list_calls(rpc)))
        return self.list_calls(rpc)[0]

    async def wait_for_any(self) -> None:
        """Return when another request has come in, or soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2), self._news:
                await self._news.wait()

    def list_calls(self, rpc: str = "tools/call") -> list[Call]:
        return [call for call in self.seen if call.rpc == rpc]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop, clients first: a connection accepted while a listener closes would stay open."""
        assert self._server is not None
        for close in self.clients:
            await close()
        self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        assert self._server is not None
        if not self._server.is_serving():
            writer.transport.abort()
            return
        self._writers.add(writer)
        # Cancelled at the end of a test, while it answers slowly: asyncio's streams would log that.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (call := await _read(reader, writer)) is not None:
                async with self._news:
                    self.seen.append(call)
                    self._news.notify_all()
                if self.on_any is None or not await self.on_any(call):
                    await self._answer(call)
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, call: Call) -> None:
        known = self.session_id is None or call.headers.get("mcp-session-id") == self.session_id
        if call.method != "POST":
            await call.reply(405 if call.method == "GET" else 204)
        elif call.rpc == "initialize":
            result = {
                "protocolVersion": self.version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
            await call.send_result(result, **({"Mcp_Session_Id": self.session_id} if self.session_id else {}))
        elif not known:
            await call.reply(404)
        elif call.rpc.startswith("notifications/"):
            await call.reply(202)
        elif call.rpc == "tools/list":
            await call.send_result({"tools": self.tools})
        elif call.rpc == "tools/call":
            await self.on_call(call)
        else:
            await call.send_error(-32601, f"Method not found: {call.rpc}")


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(first.split(" ")[0], headers, json.loads(body) if body else {}, writer)


@contextlib.asynccontextmanager
async def serve_script(
    on_call: OnCall, tools: Sequence[Json] = (), **options: Any
) -> AsyncIterator[ScriptedServer]:
    """Run a scripted server while the block runs."""
    server = ScriptedServer(on_call, tools, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
