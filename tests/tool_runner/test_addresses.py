"""docs/change/rules.md 8: what tool servers may not be. A trap listens on loopback, and sees nobody."""

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator

import httpx2
import pytest

from agentchat.directory.agent_config import McpServer
from agentchat.net_guard import Guard, Resolver, is_public
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.servers.server_pool import ServerPool
from tests.certificates import tls_contexts
from tests.tool_runner.conftest import ACCOUNT, Connect, Connections, call
from tests.tool_runner.scripted import Call, make_tool, serve_script

TLS = httpx2.create_ssl_context()

# PORT is the trap's.
FULL_WIDTH = "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54"
CIRCLED = "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460"
LOOPBACK = [
    *("127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "0", "0.0.0.0", "00000000", "0x7f000001", "0x7f.1"),
    *("0x7f.0.0.1", "0X7F.0X0.0X0.0X1", "2130706433", "017700000001", "0177.0.0.1", "0177.1", "0177.0.0.01"),
    *(
        "127.000.000.001",
        "127.0x0.0.1",
        "127.0.0.1.",
        "127.0.0.1%00",
        "127.0.0.1%20",
        "127\u30020\u30020\u30021",
    ),
    *("localhost", "LOCALHOST", "localhost.", "LocalHost.", "localhost.localdomain", "ip6-localhost"),
    *(
        "%6c%6f%63%61%6c%68%6f%73%74",
        FULL_WIDTH,
        CIRCLED,
        "xn--localhost-",
        "xn--a.-.localhost",
        "localhost%2eexample.com",
    ),
    *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::1%25lo]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::ffff:0:127.0.0.1]"),
    *("[::127.0.0.1]", "[::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]"),
    *("[2002:7f00:1::]", "[2002:7f00:0001::1]", "[2001:0:7f00:1::]", "[fe80::1]", "[fe80::1%25lo]"),
    *("[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[3fff::1]", "[5f00::1]"),
    *(
        "[100::1]",
        "user@127.0.0.1",
        "user:secret@127.0.0.1",
        "example.com@127.0.0.1",
        "127.0.0.1%2f@localhost",
    ),
]
INTERNAL = [
    *(
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "169.254.170.2",
        "100.100.100.200",
    ),
    *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]"),
    *("192.0.0.192", "168.63.129.16", "10.0.0.1", "10.1", "172.16.0.1", "172.31.255.255", "192.168.0.1"),
    *("100.64.0.1", "198.18.0.1", "192.0.2.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    "192.88.99.1",
]
OTHER_SCHEMES = [
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_x",
    "dict://127.0.0.1:PORT/",
    "unix:///var/run/docker.sock",
    "data:application/json,{}",
    "ws://127.0.0.1:PORT/",
    "//127.0.0.1:PORT/",
    "http:127.0.0.1:PORT/",
    "http://",
    "https://:443/",
    "http://[::1:PORT/",
    "https://127.0.0.1:PORT\\@example.com/",
    "",
]
URLS = [
    *(f"{scheme}://{host}:PORT/mcp" for host in LOOPBACK for scheme in ("http", "https")),
    *(f"https://{host}/mcp" for host in (*LOOPBACK, *INTERNAL)),
    *(f"http://{host}/mcp" for host in INTERNAL),
    *OTHER_SCHEMES,
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
    assert len(URLS) >= 80
    connections.blocked = True
    urls = [url.replace("PORT", str(trap.port)) for url in URLS]
    failures = await asyncio.gather(*(_reach(url, Guard([], Resolver())) for url in urls))
    kinds = {url: failed.fault.kind for url, failed in zip(urls, failures, strict=True)}
    assert set(kinds.values()) <= {"address", "unreachable", "protocol"}, kinds
    assert connections.tried == []
    assert trap.hits == 0


async def test_a_name_that_changes_its_address_is_judged_at_each_connection(
    trap: Trap, connections: Connections
) -> None:
    answers = itertools.cycle(["93.184.216.34", "127.0.0.1", "93.184.216.34", "::1", "10.0.0.1"])

    async def rebinding(_host: str, _port: int, _account: str) -> list[str]:
        return [next(answers)]

    connections.blocked = True
    for _ in range(25):
        await _reach("https://rebinding.example/mcp", Guard([], rebinding))
    assert set(connections.tried) == {("93.184.216.34", 443)}
    assert trap.hits == 0


async def test_one_internal_address_among_public_ones_is_enough_to_refuse(connections: Connections) -> None:
    async def both(_host: str, _port: int, _account: str) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    connections.blocked = True
    failed = await _reach("https://both.example/mcp", Guard([], both))
    assert failed.fault.kind == "address"
    assert "127" not in failed.fault.words
    assert connections.tried == []


@pytest.mark.parametrize("url", ["http://public.example/mcp", "https://public.example:8443/mcp"])
async def test_only_https_on_its_own_port_is_let_out(url: str, connections: Connections) -> None:
    async def public(_host: str, _port: int, _account: str) -> list[str]:
        return ["93.184.216.34"]

    connections.blocked = True
    failed = await _reach(url, Guard([], public))
    assert failed.fault.kind == "address"
    assert connections.tried == []


async def _unused(_call: Call) -> None:
    raise AssertionError("not called")


async def test_a_listed_address_is_let_through_by_its_spelling_only() -> None:
    async with serve_script(_unused) as scripted:
        guard = Guard([f"tools.internal:{scripted.port}"], _loopback)
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


async def _loopback(_host: str, _port: int, _account: str) -> list[str]:
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


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:4700:4700::1111", "64:ff9b::5db8:d822", "2002:5db8:d822::"]
)
def test_addresses_on_the_open_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("entry", ["", "host", ":80", "host:", "host:x", "host:0", "host:65536"])
def test_a_wrong_entry_of_the_list_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        Guard([entry], _loopback)


async def test_tls_is_spoken_to_the_name_in_the_url_at_the_judged_address() -> None:
    theirs, ours = tls_contexts("tools.internal")
    asked_for: list[str | None] = []
    theirs.sni_callback = lambda _socket, name, _context: asked_for.append(name)

    async with serve_script(_unused, tls=theirs) as scripted:
        guard = Guard([f"tools.internal:{scripted.port}"], _loopback)
        servers = ServerPool(guard, ours)
        url = f"https://tools.internal:{scripted.port}/mcp"
        await servers.get(ACCOUNT, McpServer(name="tls", url=url)).get_tools()
        assert set(asked_for) == {"tools.internal"}
        await servers.close(5.0)


@pytest.mark.parametrize("name", ["tools.internal", "other.internal"])
async def test_untrusted_or_misnamed_certificate_is_refused(name: str) -> None:
    theirs, ours = tls_contexts("tools.internal")
    trusted = ours if name == "other.internal" else httpx2.create_ssl_context()
    async with serve_script(_unused, tls=theirs) as scripted:
        guard = Guard([f"{name}:{scripted.port}"], _loopback)
        failed = await _reach(f"https://{name}:{scripted.port}/mcp", guard, trusted)
        assert failed.fault.kind == "certificate"
        assert scripted.seen == []
