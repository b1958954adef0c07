"""One rule decides from a server's error whether the session is gone, whatever the status."""

import json

import httpx2
import pytest

from agentchat.directory.agent_config import McpServer
from agentchat.net_guard import Guard, Resolver
from agentchat.tool_runner.calls.call_output import render_result
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.http.session_loss import is_session_gone
from agentchat.tool_runner.servers.tool_servers import ServerPool
from tests.tool_runner.conftest import ACCOUNT, Connect, call
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool, serve_script

GONE = [
    '{"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}',
    '{"error":{"code":-32001,"message":"Session not found"}}',
    "Invalid or missing session ID",
    "Bad Request: Missing session ID",
    "Bad Request: Server not initialized",
    "Not Found: Session has been terminated",
    "Not Found: Invalid or expired session ID",
    "No transport found for sessionId",
    "Mcp-Session-Id header is required",
    "Session 8a7f-1 does not exist",
    "The session doesn't exist",
    '{"detail":"Unknown session"}',
    "Unauthorized: session expired",
    "Could not find session abc",
    '{"error":"invalid_session"}',
    "MCP session 12 not found",
    "The session is no longer valid",
    "session abc123 is not active",
    "SESSION_NOT_FOUND",
    '{"code":"session_expired"}',
    "Unknown session id: 5",
    "mcp-session-id: unknown",
]
ALIVE = [
    "",
    "Internal Server Error",
    "Unauthorized",
    '{"error":"invalid_token"}',
    "Checkout session not found",
    "Database session closed",
    "Your login session has expired",
    "Missing argument: session_name",
    "No orders in this session were found",
    "The DB session is invalid",
    "Payment failed; SQL session terminated",
    "Tool call failed: browser session expired",
]


@pytest.mark.parametrize("body", GONE)
def test_body_that_names_the_lost_session_decides(body: str) -> None:
    for status in (400, 401, 403, 422, 500, 503):
        assert is_session_gone(status, body.encode()), status


@pytest.mark.parametrize("body", ALIVE)
def test_other_errors_keep_the_session(body: str) -> None:
    assert not is_session_gone(500, body.encode())
    assert is_session_gone(404, body.encode())
    assert is_session_gone(410, body.encode())


TOOLS = [make_tool("read", readOnlyHint=True), make_tool("write")]
STATUSES = [200, 400, 401, 403, 404, 410, 422, 500, 503]
RPC = json.dumps(
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}
).encode()


async def send_fine(call: Call) -> None:
    await call.send_text("fine")


def forget_session(scripted: ScriptedServer, status: int, body: bytes) -> None:
    """Restart the server, so to say: it knows the next session only."""
    scripted.session_id = "s-2"

    async def refuse_unknown(call: Call) -> bool:
        known = call.rpc == "initialize" or call.headers.get("mcp-session-id") == "s-2"
        if not known and call.method == "POST":
            await call.reply(status, body)
        return not known and call.method == "POST"

    scripted.on_any = refuse_unknown


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(
    ("tool", "body"), [("write", RPC), ("read", b"Bad Request: No valid session ID provided")]
)
async def test_call_is_made_again_on_a_new_session(
    connect: Connect, status: int, tool: str, body: bytes
) -> None:
    if status == 200 and body is not RPC:
        return
    async with serve_script(send_fine, TOOLS) as scripted:
        scripted.session_id = "s-1"
        server = connect(scripted)
        await call(server, "read")
        forget_session(scripted, status, body)
        assert render_result(await call(server, tool)) == '{"text":"fine"}'
        assert [seen.headers["mcp-session-id"] for seen in scripted.list_calls()] == ["s-1", "s-1", "s-2"]


@pytest.mark.parametrize("status", [400, 401, 403, 422, 500, 503])
async def test_unclear_error_repeats_reads_only_and_heals(connect: Connect, status: int) -> None:
    async with serve_script(send_fine, TOOLS) as scripted:
        scripted.session_id = "s-1"
        server = connect(scripted)
        await call(server, "read")
        forget_session(scripted, status, b"Something went wrong")
        assert not (await call(server, "read")).is_error
        forget_session(scripted, status, b"Something went wrong")
        scripted.session_id = "s-3"

        async def refuse_old(call: Call) -> bool:
            known = call.rpc == "initialize" or call.headers.get("mcp-session-id") == "s-3"
            if not known and call.method == "POST":
                await call.reply(status, b"Something went wrong")
            return not known and call.method == "POST"

        scripted.on_any = refuse_old
        with pytest.raises(ToolFailed):
            await call(server, "write")
        assert not (await call(server, "write")).is_error


@pytest.mark.parametrize("status", [400, 401, 500])
async def test_error_of_a_living_session_keeps_it(connect: Connect, status: int) -> None:
    async def fail_once(call: Call) -> None:
        await (call.reply(status, b"No.") if call.tool == "write" else call.send_text("fine"))

    async def answer_ping(call: Call) -> bool:
        if call.rpc == "ping":
            await call.send_result({})
        return call.rpc == "ping"

    async with serve_script(fail_once, TOOLS, on_any=answer_ping) as scripted:
        scripted.session_id = "s-1"
        server = connect(scripted)
        for _ in range(2):
            with pytest.raises(ToolFailed):
                await call(server, "write")
            assert not (await call(server, "read")).is_error
        assert len(scripted.list_calls("initialize")) == 1
        assert len([seen for seen in scripted.list_calls() if seen.tool == "write"]) == 2


@pytest.mark.parametrize("body", [RPC, b"Something went wrong"])
async def test_lost_session_is_replaced_for_the_list(body: bytes) -> None:
    async with serve_script(send_fine, TOOLS) as scripted:
        scripted.session_id = "s-1"
        guard = Guard([f"127.0.0.1:{scripted.port}"], Resolver())
        servers = ServerPool(guard, httpx2.create_ssl_context(), listing_seconds=0.0)
        scripted.clients.append(lambda: servers.close(5.0))
        server = servers.get(ACCOUNT, McpServer(name="scripted", url=scripted.url))
        assert list(await server.get_tools()) == ["read", "write"]
        forget_session(scripted, 400, body)
        assert list(await server.get_tools()) == ["read", "write"]
