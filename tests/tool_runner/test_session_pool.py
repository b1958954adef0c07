"""MCP sessions are pooled, bounded, closed when idle, and reconnected; nothing leaks."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from agentchat.directory.agent_config import McpServer
from agentchat.net_guard import Guard, Resolver
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.servers.tool_servers import ServerPool
from tests.tool_runner.conftest import ACCOUNT, Connect, call
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool, serve_script


async def _echo(call: Call) -> None:
    await call.send_text("fine")


@pytest.fixture
async def scripted_server() -> AsyncIterator[ScriptedServer]:
    async with serve_script(_echo) as started:
        yield started


@pytest.fixture
def servers(scripted_server: ScriptedServer) -> ServerPool:
    """Overrides the embedded servers of the other tests, which these need not."""
    return _build_pool(scripted_server)


def _build_pool(scripted: ScriptedServer, **bounds: Any) -> ServerPool:
    guard = Guard([f"127.0.0.1:{scripted.port}"], Resolver())
    made = ServerPool(guard, httpx2.create_ssl_context(), **bounds)
    scripted.clients.append(lambda: made.close(5.0))
    return made


def _build_config(scripted: ScriptedServer, **headers: str) -> McpServer:
    return McpServer(name="scripted", url=scripted.url, headers=headers)


async def test_one_account_and_credential_share_a_session_and_others_do_not(
    servers: ServerPool, scripted_server: ScriptedServer
) -> None:
    first = servers.get(ACCOUNT, _build_config(scripted_server, Authorization="1"))
    assert servers.get(ACCOUNT, _build_config(scripted_server, Authorization="1")) is first
    others = [
        servers.get(ACCOUNT, _build_config(scripted_server, Authorization="2")),
        servers.get(ACCOUNT, _build_config(scripted_server)),
        servers.get("another account", _build_config(scripted_server, Authorization="1")),
    ]
    assert len({id(server) for server in (first, *others)}) == 4
    await asyncio.gather(*(server.get_tools() for server in (first, *others)))
    assert len(scripted_server.list_calls("initialize")) == 4


async def test_concurrent_calls_share_one_session_and_one_cached_listing(
    servers: ServerPool, scripted_server: ScriptedServer
) -> None:
    server = servers.get(ACCOUNT, _build_config(scripted_server))
    await asyncio.gather(*(call(server, "echo") for _ in range(10)))
    assert len(scripted_server.list_calls("initialize")) == 1
    assert len(scripted_server.list_calls("tools/list")) == 1
    assert len(scripted_server.list_calls("tools/call")) == 10


async def test_an_idle_server_is_closed_and_comes_back(
    servers: ServerPool, scripted_server: ScriptedServer
) -> None:
    scripted_server.session_id = "s-1"
    server = servers.get(ACCOUNT, _build_config(scripted_server))
    await server.get_tools()
    servers.close_idle(60.0)
    assert servers.get(ACCOUNT, _build_config(scripted_server)) is server
    with server.keep_open():
        servers.close_idle(0.0)
        assert servers.get(ACCOUNT, _build_config(scripted_server)) is server
    servers.close_idle(0.0)
    assert servers.get(ACCOUNT, _build_config(scripted_server)) is not server
    await scripted_server.wait_for_request("")  # the DELETE of the old session
    assert not (await call(servers.get(ACCOUNT, _build_config(scripted_server)), "echo")).is_error


async def test_servers_are_bounded_in_number_and_the_idle_ones_make_room(
    scripted_server: ScriptedServer,
) -> None:
    servers = _build_pool(scripted_server, max_servers=2)
    with contextlib.ExitStack() as stack:
        first, second = (servers.get(account, _build_config(scripted_server)) for account in ("1", "2"))
        stack.enter_context(first.keep_open())
        servers.get("3", _build_config(scripted_server))
        assert servers.get("1", _build_config(scripted_server)) is first
        assert first is not second
        stack.enter_context(servers.get("3", _build_config(scripted_server)).keep_open())
        with pytest.raises(ToolFailed, match="busy"):
            servers.get("4", _build_config(scripted_server))


async def test_an_account_with_many_servers_takes_no_room_from_others(
    scripted_server: ScriptedServer,
) -> None:
    servers = _build_pool(scripted_server, max_servers=8)
    with contextlib.ExitStack() as stack:
        for number in range(4):
            stack.enter_context(
                servers.get("greedy", _build_config(scripted_server, X=str(number))).keep_open()
            )
        with pytest.raises(ToolFailed, match="4 servers of the account are in use"):
            servers.get("greedy", _build_config(scripted_server, X="4"))
        others = [servers.get(account, _build_config(scripted_server)) for account in ("a", "b")]
    fifth = servers.get(
        "greedy", _build_config(scripted_server, X="5")
    )  # in the place of an idle one of its own
    assert servers.get("greedy", _build_config(scripted_server, X="5")) is fifth
    assert [servers.get(account, _build_config(scripted_server)) for account in ("a", "b")] == others


async def test_an_unreachable_server_is_retried_after_a_backoff(connect: Connect) -> None:
    async with serve_script(_echo) as scripted:
        server = connect(scripted)
    for _ in range(5):
        with pytest.raises(ToolFailed, match="unreachable"):
            await server.get_tools()
    await scripted.start()
    with pytest.raises(ToolFailed, match="not tried again yet"):
        await server.get_tools()
    assert scripted.connections == 0
    await asyncio.sleep(1.05)  # so long it is left alone
    assert list(await server.get_tools()) == ["echo"]
    await server.close()
    await scripted.stop()


async def test_all_pages_are_listed(connect: Connect) -> None:
    async def page(call: Call) -> bool:
        if call.rpc != "tools/list":
            return False
        cursor = int(call.message.get("params", {}).get("cursor", "0"))
        more = {"nextCursor": str(cursor + 1)} if cursor < 3 else {}
        await call.send_result({"tools": [make_tool(f"t{cursor}")], **more})
        return True

    async with serve_script(_echo, on_any=page) as scripted:
        assert list(await connect(scripted).get_tools()) == ["t0", "t1", "t2", "t3"]


async def test_pages_without_end_are_not_followed_for_ever(connect: Connect) -> None:
    async def page(call: Call) -> bool:
        if call.rpc == "tools/list":
            await call.send_result({"tools": [make_tool("same")], "nextCursor": "again"})
        return call.rpc == "tools/list"

    async with serve_script(_echo, on_any=page) as scripted:
        assert list(await connect(scripted).get_tools()) == ["same"]
        assert len(scripted.list_calls("tools/list")) == 20


async def test_many_calls_good_and_bad_leave_nothing_behind(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        match call.tool:
            case "die":
                call.writer.transport.abort()
            case "slow":
                await asyncio.sleep(0.2)
                await call.send_text("late")
            case _:
                await call.send_text("fine")

    async def make_calls(count: int) -> None:
        for _ in range(count):
            names = ("echo", "die", "slow", "echo")
            await asyncio.gather(
                *(call(server, name, seconds=0.05 if name == "slow" else 5.0) for name in names),
                return_exceptions=True,
            )

    def count_left() -> tuple[int, int]:
        """Count the tasks and open files of this process."""
        return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

    async with serve_script(on_call, [make_tool("echo"), make_tool("die"), make_tool("slow")]) as scripted:
        server = connect(scripted)
        await make_calls(3)
        tasks, files = count_left()
        await make_calls(40)
        async with asyncio.timeout(20):
            while count_left()[0] > tasks + 2 or count_left()[1] > files + 8:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert len(scripted.list_calls("initialize")) == 1
