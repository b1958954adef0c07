"""Servers of every protocol from 2024-11-05 on, with and without sessions, JSON and SSE."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from mcp.server.mcpserver import Context, MCPServer
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentchat.runtime import telemetry
from agentchat.tool_runner.calls.call_output import render_result
from agentchat.tool_runner.faults import ToolFailed
from tests.tool_runner.conftest import Connect, call
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool, serve_script
from tests.tool_runner.sdk_server import listening


async def _echo(call: Call) -> None:
    await call.send_text(str(call.arguments))


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("session_id", [None, "s-1"])
async def test_a_server_with_a_handshake_is_spoken_to_in_its_version(
    version: str, session_id: str | None, connect: Connect
) -> None:
    async with serve_script(_echo, version=version) as scripted:
        scripted.session_id = session_id
        server = connect(scripted, Authorization="Bearer t")
        assert render_result(await call(server, "echo", a=1)) == '{"text":"{\'a\': 1}"}'
        assert server.protocol_version == version
        assert scripted.list_calls()[0].headers["mcp-protocol-version"] == version
        assert scripted.list_calls()[0].headers["authorization"] == "Bearer t"
        assert scripted.list_calls()[0].headers.get("mcp-session-id") == session_id
        assert not [seen for seen in scripted.seen if seen.method == "GET"]


@pytest.mark.parametrize("status", [400, 404, 405, 406, 500, 502])
async def test_server_that_fails_the_probe_gets_a_handshake(status: int, connect: Connect) -> None:
    async def refuse(call: Call) -> bool:
        if call.rpc == "server/discover":
            await call.reply(status, b"no", "text/plain")
        return call.rpc == "server/discover"

    async with serve_script(_echo, on_any=refuse) as scripted:
        assert not (await call(connect(scripted), "echo")).is_error


async def test_a_server_that_never_answers_the_probe_gets_a_handshake(connect: Connect) -> None:
    async def hang(call: Call) -> bool:
        if call.rpc == "server/discover":
            await asyncio.sleep(60)
        return False

    async with serve_script(_echo, on_any=hang) as scripted:
        assert not (await call(connect(scripted), "echo")).is_error


async def test_an_expired_session_reconnects_and_retries_the_call(connect: Connect) -> None:
    async with serve_script(_echo, [make_tool("write")]) as scripted:
        scripted.session_id = "first"
        server = connect(scripted)
        await call(server, "write")
        scripted.session_id = "second"
        results = await asyncio.gather(*(call(server, "write") for _ in range(5)))
        assert [result.is_error for result in results] == [False] * 5
        assert len(scripted.list_calls("initialize")) == 2
        assert len(scripted.list_calls("server/discover")) == 1  # known by now to want a handshake


@pytest.mark.parametrize("dies", [True, False])
async def test_a_lost_session_does_not_touch_the_calls_that_still_run_on_it(
    dies: bool, connect: Connect
) -> None:
    may_end = asyncio.Event()

    async def on_call(call: Call) -> None:
        if call.tool == "long":
            await may_end.wait()
            if dies:
                call.writer.transport.abort()
        await call.send_text("done")

    async with serve_script(on_call, [make_tool("long"), make_tool("short")]) as scripted:
        scripted.session_id = "first"
        server = connect(scripted)
        running = asyncio.create_task(call(server, "long"))
        await scripted.wait_for_request("tools/call")
        scripted.session_id = "second"
        assert not (await call(server, "short")).is_error
        may_end.set()
        if dies:
            with pytest.raises(ToolFailed, match="broken"):
                await running
        else:
            assert render_result(await running) == '{"text":"done"}'
        assert [seen.tool for seen in scripted.list_calls()].count("long") == 1


async def test_a_session_is_ended_with_the_server_when_it_is_closed(connect: Connect) -> None:
    async with serve_script(_echo) as scripted:
        scripted.session_id = "s-1"
        server = connect(scripted)
        await call(server, "echo")
        await server.close()
        assert scripted.seen[-1].method == "DELETE"
        assert scripted.seen[-1].headers["mcp-session-id"] == "s-1"


def _build_sdk_server() -> MCPServer:
    server = MCPServer("newest", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @server.tool()
    async def traced(context: Context) -> str:
        """What the caller's trace context was."""
        meta = context.request_context.meta or {}
        return str(meta.get("traceparent", ""))

    return server


@asynccontextmanager
async def _serve_sdk_server(*, json_response: bool, stateless: bool) -> AsyncIterator[ScriptedServer]:
    """The SDK's own server; the scripted one only carries its address."""
    app = _build_sdk_server().streamable_http_app(json_response=json_response, stateless_http=stateless)
    address = ScriptedServer(_echo)
    async with listening(app) as address.port:
        try:
            yield address
        finally:
            for close in address.clients:
                await close()


@pytest.mark.parametrize("json_response", [True, False])
@pytest.mark.parametrize("stateless", [True, False])
async def test_the_newest_protocol_is_spoken_where_the_server_knows_it(
    json_response: bool, stateless: bool, connect: Connect
) -> None:
    async with _serve_sdk_server(json_response=json_response, stateless=stateless) as address:
        server = connect(address)
        assert render_result(await call(server, "add", a=1, b=2)) == '{"sum":3}'
        assert server.protocol_version == "2026-07-28"
        results = await asyncio.gather(*(call(server, "add", a=n, b=n) for n in range(16)))
        assert [render_result(result) for result in results] == [f'{{"sum":{2 * n}}}' for n in range(16)]


async def test_the_server_gets_the_trace_context_of_the_call(connect: Connect) -> None:
    telemetry.configure("test", None, exporter=InMemorySpanExporter())
    try:
        async with _serve_sdk_server(json_response=True, stateless=True) as address:
            server = connect(address)
            with telemetry.open_span("outer") as span:
                result = await call(server, "traced")
            trace_id = f"{span.get_span_context().trace_id:032x}"
            assert trace_id in render_result(result)
    finally:
        telemetry.shut_down()
