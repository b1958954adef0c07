"""Servers of every protocol from 2024-11-05 on, with and without sessions, JSON and SSE."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from mcp.server.mcpserver import MCPServer

from agentchat.tool_runner.calls.call_output import render_result
from agentchat.tool_runner.faults import ToolFailed
from tests.tool_runner.conftest import Connect, call
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool, serve_script
from tests.tool_runner.sdk_server import serve_app


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


def _build_sdk_server() -> MCPServer:
    server = MCPServer("newest", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    return server


@asynccontextmanager
async def _serve_sdk_server(*, json_response: bool, stateless: bool) -> AsyncIterator[ScriptedServer]:
    """Serve the SDK's own server; the scripted one only carries its address."""
    app = _build_sdk_server().streamable_http_app(json_response=json_response, stateless_http=stateless)
    address = ScriptedServer(_echo)
    async with serve_app(app) as address.port:
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
