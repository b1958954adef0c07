"""Connections of this process to scripted tool servers on loopback."""

import asyncio
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Protocol

import httpx2
import pytest
from mcp_types import CallToolResult

from agentchat.directory.agent_config import McpServer
from agentchat.net_guard import Guard, Resolver
from agentchat.tool_runner.servers.tool_servers import ServerPool, ToolServer
from tests.tool_runner.scripted import ScriptedServer

ACCOUNT = "0192f0c1-0000-7000-8000-0000000000a1"


class Connect(Protocol):
    def __call__(self, scripted: ScriptedServer, **headers: str) -> ToolServer: ...


@pytest.fixture
def connect() -> Connect:
    """A Server for a scripted one, closed before that is."""

    def make(scripted: ScriptedServer, **headers: str) -> ToolServer:
        guard = Guard([f"127.0.0.1:{scripted.port}"], Resolver())
        servers = ServerPool(guard, httpx2.create_ssl_context())
        scripted.clients.append(lambda: servers.close(5.0))
        return servers.get(ACCOUNT, McpServer(name="scripted", url=scripted.url, headers=headers))

    return make


async def call(server: ToolServer, name: str, seconds: float = 20.0, **arguments: Any) -> CallToolResult:
    """Make one call, by the name of the tool."""
    tools = await server.get_tools()
    result = await server.call(tools[name], arguments, asyncio.get_running_loop().time() + seconds)
    assert isinstance(result, CallToolResult)
    return result


def _is_of_the_stack() -> bool:
    """Return True if the supervisor of the tests' servers connects, to check their health."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("agentchat.ops."):
            return True
        frame = frame.f_back
    return False


class Connections:
    """Every address of others that this process tries to connect to; while `blocked`, none is reached."""

    def __init__(self) -> None:
        self.watching = False
        self.blocked = False
        self.tried: list[tuple[Any, ...]] = []

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watching and event == "socket.connect" and not _is_of_the_stack():
            self.tried.append(arguments[1])
            if self.blocked:
                raise OSError("blocked by the test")


_connections = Connections()
sys.addaudithook(_connections.hook)  # hooks cannot be removed, so there is one for all tests


@pytest.fixture
def connections() -> Iterator[Connections]:
    """The connections that this process makes, as the interpreter sees them."""
    _connections.tried.clear()
    _connections.watching = True
    yield _connections
    _connections.watching = _connections.blocked = False
