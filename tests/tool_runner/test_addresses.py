"""docs/change/rules.md 8: what tool servers may not be. A trap listens on loopback, and sees nobody."""

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator

import httpx2
import pytest

from agentchat.directory.agent_config import McpServer
from agentchat.net_guard import Guard, Resolver
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.servers.tool_servers import ServerPool
from tests.certificates import make_tls_contexts
from tests.tool_runner.conftest import ACCOUNT, Connect, Connections, call
from tests.tool_runner.scripted import Call, make_tool, serve_script

TLS = httpx2.create_ssl_context()

# PORT is the trap's. tests/net_guard has the other spellings.
URLS = [
    *(
        "http://127.0.0.1:PORT/mcp",
        "https://localhost:PORT/mcp",
        "https://[::1]:PORT/mcp",
        "http://127.1:PORT/",
    ),
    *(
        "https://0x7f000001:PORT/",
        "https://2130706433/",
        "https://[::ffff:127.0.0.1]:PORT/",
        "https://10.0.0.1/",
    ),
    *("https://169.254.169.254/latest", "http://[64:ff9b::a9fe:a9fe]/", "https://user@127.0.0.1:PORT/"),
    *(
        "https://127.0.0.1%00:PORT/",
        "https://xn--a.-.localhost:PORT/",
        "https://%6c%6f%63%61%6c%68%6f%73%74:PORT/",
    ),
    *(
        "file:///etc/passwd",
        "gopher://127.0.0.1:PORT/_x",
        "//127.0.0.1:PORT/",
        "http://",
        "http://[::1:PORT/",
        "",
    ),
    "https://127.0.0.1:PORT\\@example.com/",
]


class Trap:
    """A listener that must never be reached."""

    def __init__(self) -> None:
        self.hits = 0
        self.port = 0

    def on_connection(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits += 1
        writer.close()


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    trap = Trap()
    listener = await asyncio.start_server(trap.on_connection, "127.0.0.1", 0)
    trap.port = listener.sockets[0].getsockname()[1]
    second = await asyncio.start_server(trap.on_connection, "::1", trap.port)
    yield trap
    listener.close()
    second.close()


async def _reach(url: str, guard: Guard, tls: ssl.SSLContext = TLS) -> ToolFailed:
    servers = ServerPool(guard, tls)
    try:
        server = servers.get(ACCOUNT, McpServer(name="stranger", url=url))
        with pytest.raises(ToolFailed) as caught:
            await server.get_tools()
        return caught.value
    finally:
        await servers.close(5.0)


async def test_no_spelling_of_an_internal_address_is_connected_to(
    trap: Trap, connections: Connections
) -> None:
    connections.blocked = True
    urls = [url.replace("PORT", str(trap.port)) for url in URLS]
    failures = await asyncio.gather(*(_reach(url, Guard([], Resolver())) for url in urls))
    kinds = {url: failed.fault.kind for url, failed in zip(urls, failures, strict=True)}
    assert set(kinds.values()) <= {"address", "unreachable", "protocol"}, kinds
    assert connections.tried == []
    assert trap.hits == 0


async def test_a_changed_address_is_checked_at_each_connection(trap: Trap, connections: Connections) -> None:
    answers = itertools.cycle(["93.184.216.34", "127.0.0.1", "93.184.216.34", "::1", "10.0.0.1"])

    async def resolve_in_turn(_host: str, _port: int, _account: str) -> list[str]:
        return [next(answers)]

    connections.blocked = True
    for _ in range(25):
        await _reach("https://rebinding.example/mcp", Guard([], resolve_in_turn))
    assert set(connections.tried) == {("93.184.216.34", 443)}
    assert trap.hits == 0


async def _refuse_call(_call: Call) -> None:
    raise AssertionError("not called")


async def test_a_listed_address_is_let_through_by_its_spelling_only() -> None:
    async with serve_script(_refuse_call) as scripted:
        guard = Guard([f"tools.internal:{scripted.port}"], _resolve_loopback)
        servers = ServerPool(guard, httpx2.create_ssl_context())
        url = f"http://tools.internal:{scripted.port}/mcp"
        listed = servers.get(ACCOUNT, McpServer(name="listed", url=url))
        assert list(await listed.get_tools()) == ["echo"]
        assert scripted.seen[0].headers["host"] == f"tools.internal:{scripted.port}"
        await servers.close(5.0)
        seen = len(scripted.seen)
        for other in (scripted.url, f"http://other.internal:{scripted.port}/mcp"):
            assert (await _reach(other, guard)).fault.kind == "address"
        assert len(scripted.seen) == seen


async def _resolve_loopback(_host: str, _port: int, _account: str) -> list[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:PORT/mcp",
        "https://127.0.0.1/",
        "http://user@127.0.0.1:SELF/mcp",
        "//localhost:PORT/",
        "file:///etc/passwd",
        "http://[",
    ],
)
async def test_a_redirect_elsewhere_is_not_followed(
    status: int, location: str, trap: Trap, connect: Connect, connections: Connections
) -> None:
    async def redirect(call: Call) -> None:
        where = location.replace("PORT", str(trap.port)).replace("SELF", str(scripted.port))
        await call.reply(status, Location=where)

    async with serve_script(redirect) as scripted:
        server = connect(scripted)
        await server.get_tools()
        connections.tried.clear()
        connections.blocked = True
        with pytest.raises(ToolFailed) as caught:
            await call(server, "echo")
        assert caught.value.fault.kind == "redirect"
        assert "169.254" not in caught.value.fault.words
        assert connections.tried == []
        assert trap.hits == 0
        assert len(scripted.list_calls()) == 1


async def test_a_redirect_within_the_origin_is_followed(connect: Connect) -> None:
    async def redirect_once(call: Call) -> None:
        if len(scripted.list_calls()) == 1:
            await call.reply(307, Location="/elsewhere")
        else:
            await call.send_text("here")

    async with serve_script(redirect_once) as scripted:
        result = await call(connect(scripted), "echo")
        assert result.content[0].type == "text"
        assert result.content[0].text == "here"


async def test_proxies_of_the_environment_are_not_used(
    trap: Trap, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")

    async def answer(call: Call) -> None:
        await call.send_text("direct")

    async with serve_script(answer, [make_tool("echo")]) as scripted:
        await call(connect(scripted), "echo")
    assert trap.hits == 0


@pytest.mark.parametrize("name", ["tools.internal", "other.internal"])
async def test_untrusted_or_misnamed_certificate_is_refused(name: str) -> None:
    theirs, ours = make_tls_contexts("tools.internal")
    trusted = ours if name == "other.internal" else httpx2.create_ssl_context()
    async with serve_script(_refuse_call, tls=theirs) as scripted:
        guard = Guard([f"{name}:{scripted.port}"], _resolve_loopback)
        failed = await _reach(f"https://{name}:{scripted.port}/mcp", guard, trusted)
        assert failed.fault.kind == "certificate"
        assert scripted.seen == []
