"""Sessions of aiohttp as model calls and webhooks use them."""

import asyncio
import platform
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest
import truststore

from agentchat.net_guard import AddressRefused, Guard
from agentchat.net_guard.guarded_session import get_tls_context, open_session
from tests.certificates import make_tls_contexts


async def answer_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with await asyncio.start_server(answer_requests, "127.0.0.1") as listening:
        yield listening.sockets[0].getsockname()[1]


async def get(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.get(url, allow_redirects=False) as answer:
        return await answer.read()


async def test_each_connection_goes_to_an_address_that_was_checked_for_it(port: int) -> None:
    found, asked = [["127.0.0.1"], ["127.0.0.1", "10.0.0.1"]], []

    async def resolve(host: str, port: int, account_id: str) -> list[str]:
        asked.append(host)
        return found[len(asked) - 1]

    tls = ssl.create_default_context()
    async with open_session(
        tls, keepalive_seconds=60, guard=Guard([f"hooks.example:{port}"], resolve)
    ) as one:
        assert [await get(one, f"http://hooks.example:{port}/") for _ in range(2)] == [b"hi"] * 2
        assert asked == ["hooks.example"], "once a connection"
        with pytest.raises(AddressRefused):
            await get(one, f"http://other.example:{port}/")


async def test_it_speaks_tls_and_knows_with_whom() -> None:
    theirs, ours = make_tls_contexts("localhost")
    async with await asyncio.start_server(answer_requests, "127.0.0.1", ssl=theirs) as listening:
        port = listening.sockets[0].getsockname()[1]
        async with open_session(ssl.create_default_context(), keepalive_seconds=60) as stranger:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await get(stranger, f"https://localhost:{port}/")
        async with open_session(ours, keepalive_seconds=60) as friend:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await get(friend, f"https://127.0.0.1:{port}/")
            assert await get(friend, f"https://localhost:{port}/") == b"hi"


async def test_no_connection_in_time_is_a_timeout_and_leaves_none() -> None:
    """Nothing answers there: the handshake of TLS does not begin."""
    closed = asyncio.Event()

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        closed.set()

    async with (
        await asyncio.start_server(stay_silent, "127.0.0.1") as listening,
        open_session(
            ssl.create_default_context(), keepalive_seconds=60, timeout=aiohttp.ClientTimeout(connect=0.1)
        ) as session,
    ):
        with pytest.raises(TimeoutError):
            await get(session, f"https://localhost:{listening.sockets[0].getsockname()[1]}/")
        async with asyncio.timeout(10):
            await closed.wait()


async def test_an_idle_connection_is_closed() -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_requests(reader, writer)
        closed.set()

    async with (
        await asyncio.start_server(serve, "127.0.0.1") as listening,
        open_session(ssl.create_default_context(), keepalive_seconds=0.05) as session,
    ):
        assert await get(session, f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/") == b"hi"
        async with asyncio.timeout(10):
            await closed.wait()


def test_tls_trusts_the_named_authorities_and_checks_hosts() -> None:
    context = get_tls_context()
    named = ssl.create_default_context()  # SSL_CERT_FILE is set for all tests
    assert context.get_ca_certs() == named.get_ca_certs() != []
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_authorities_of_macos_are_those_of_its_keychain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    context = get_tls_context.__wrapped__()
    assert isinstance(context, truststore.SSLContext)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
