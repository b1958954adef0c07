"""An address that lists several servers: what it may say, and which of them a connection is to."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from agentchat.bus import connection
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.jetstream import JetStream
from agentchat.bus.nats_url import parse_servers
from agentchat.runtime.settings import SettingsError
from tests.bus.nats_server import NatsServer
from tests.support.proxy import Proxy

_NO_QUORUM = (
    'server_name: alone\ncluster { name: tests, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:1"] }\n'
)

_IN_PROCESS = (
    b'{"error": {"code": 409, "err_code": 10158, "description": "duplicate message id is in process"}}'
)
_STORED = b'{"stream": "SCRIPTED", "seq": 7, "duplicate": true}'


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "server 1 is not nats://HOST:PORT or tls://HOST:PORT"),
        ("nats://a:4222,", "server 2 is not nats://HOST:PORT or tls://HOST:PORT"),
        ("a:4222", "server 1 is not nats://HOST:PORT or tls://HOST:PORT"),
        ("nats://a:x", "server 1 is not nats://HOST:PORT or tls://HOST:PORT"),
        ("nats://a:4222,tls://b:4222", "server 2 has another scheme than the first"),
        ("nats://u:p@a:4222,nats://b:4222", "server 2 has another login than the first"),
        ("nats://u:p@a:4222,nats://u:q@b:4222", "server 2 has another login than the first"),
        ("tls://a?ca=x,tls://b?ca=y", "server 2 has another authority than the first"),
    ],
)
def test_an_address_that_cannot_work_is_refused_without_repeating_it(address: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_servers(address)
    assert str(caught.value) == f"the address of NATS: {reason}"


def test_servers_are_listed_without_their_parameters() -> None:
    assert parse_servers("tls://u:p@a?ca=x, tls://u:p@b:4223?ca=x,tls://u:p@c") == [
        *("tls://u:p@a", "tls://u:p@b:4223", "tls://u:p@c")
    ]


def get_port(link: connection.Connection) -> int:
    url = link.client.connected_url
    return 0 if url is None else url.port or 0


async def wait_until_at(link: connection.Connection, port: int) -> None:
    async with asyncio.timeout(20):
        while get_port(link) != port:  # noqa: ASYNC110 - it says only that it is back
            await asyncio.sleep(0.01)


async def test_a_connection_that_is_lost_goes_to_the_next_server(shared_nats: NatsServer) -> None:
    async with (
        Proxy(shared_nats.port) as one,
        Proxy(shared_nats.port) as two,
        Proxy(shared_nats.port) as three,
    ):
        urls = ",".join(each.through(shared_nats.url) for each in (one, two, three))
        async with connection.connect(urls, "test") as link:
            seen = [get_port(link)]
            for _ in range(3):
                here = next(each for each in (one, two, three) if each.port == seen[-1])
                back = asyncio.Event()
                remove = link.add_listener(back.set)
                await here.set_mode("reset")
                async with asyncio.timeout(20):
                    await back.wait()
                remove()
                seen.append(get_port(link))
    assert sorted(seen[:3]) == sorted(each.port for each in (one, two, three)), "each in its turn"
    assert seen[3] == seen[0]


@pytest.fixture
async def lone_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A node of a cluster whose peers are away."""
    server = NatsServer(tmp_path / "alone", _NO_QUORUM)
    await server.start()
    yield server
    await server.kill()


@pytest.mark.parametrize("by", ["asking", "publishing"])
async def test_a_node_without_a_quorum_is_left(
    lone_server: NatsServer, shared_nats: NatsServer, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(connection, "_WATCH_SECONDS", 0.1 if by == "asking" else 60.0)
    monkeypatch.setattr(connection, "_ALONE_SECONDS", 0.5)
    monkeypatch.setattr(connection, "_LEADERLESS_SECONDS", 0.5)
    monkeypatch.setattr(connection, "_UNSTORED_SECONDS", 1.0)
    async with Proxy(shared_nats.port) as other:
        await other.set_mode("refuse")
        urls = f"{lone_server.url},{other.through(shared_nats.url)}"
        async with connection.connect(urls, "test") as link:
            await other.set_mode("pass")
            assert get_port(link) == lone_server.port
            if by == "publishing":
                with pytest.raises(BusUnavailable):
                    await JetStream(link).publish("chat.dead.x", b"", "x", seconds=1.0)
            await wait_until_at(link, other.port)


async def test_a_publication_that_a_stream_still_stores_is_waited_for(shared_nats: NatsServer) -> None:
    """A leader answers a second try so before its replicas have confirmed the first."""
    stream, answers = await nats.connect(shared_nats.url), iter((_IN_PROCESS, _IN_PROCESS, _STORED))

    async def answer(message: Msg) -> None:
        await message.respond(next(answers))

    await stream.subscribe("scripted.stream", cb=answer)
    await stream.flush()
    try:
        async with connection.connect(shared_nats.url, "test") as link:
            assert await JetStream(link).publish("scripted.stream", b"", "x") == 7
    finally:
        await stream.close()
