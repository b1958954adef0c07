"""The proxy fails in the way that it is told to, and is whole again afterwards."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator

import pytest

from tests.support.proxy import Proxy

_SECONDS = 2.0
_NOTHING_SECONDS = 0.1


@contextlib.asynccontextmanager
async def run_echo_proxy(prefix: bytes = b"") -> AsyncIterator[Proxy]:
    """A proxy before a server that sends back what it gets."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1000):
                writer.write(prefix + data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
        server.close()


class Client:
    """One connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, data: bytes) -> bytes:
        self.writer.write(data)
        async with asyncio.timeout(_SECONDS):
            return await self.reader.read(1000)

    async def hears_nothing(self, data: bytes) -> bool:
        self.writer.write(data)
        try:
            async with asyncio.timeout(_NOTHING_SECONDS):
                await self.reader.read(1000)
        except TimeoutError:
            return True
        return False


@contextlib.asynccontextmanager
async def connect_client(proxy: Proxy) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
    try:
        yield client
    finally:
        client.writer.transport.abort()


async def test_it_passes_bytes_both_ways() -> None:
    async with run_echo_proxy() as proxy, connect_client(proxy) as client:
        assert await client.ask(b"one") == b"one"


async def test_refusing_link_resets_connections_until_healed() -> None:
    async with run_echo_proxy() as proxy, connect_client(proxy) as client:
        await client.ask(b"one")
        assert await proxy.set_mode("refuse") == 1
        with pytest.raises(ConnectionResetError):
            await client.ask(b"two")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        await proxy.set_mode("pass")
        async with connect_client(proxy) as again:
            assert await again.ask(b"three") == b"three"


async def test_a_frozen_link_loses_nothing() -> None:
    async with run_echo_proxy() as proxy, connect_client(proxy) as client:
        await client.ask(b"one")
        await proxy.set_mode("freeze")
        assert await client.hears_nothing(b"two")
        await proxy.set_mode("pass")
        assert await client.ask(b"") == b"two"


async def test_a_link_that_is_reset_takes_new_connections_at_once() -> None:
    async with run_echo_proxy() as proxy, connect_client(proxy) as client:
        await client.ask(b"one")
        await proxy.set_mode("reset")
        with pytest.raises(ConnectionResetError):
            await client.ask(b"two")
        async with connect_client(proxy) as again:
            assert await again.ask(b"three") == b"three"


async def test_a_server_that_resets_a_connection_resets_its_client() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(3)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    await proxy.open()
    async with connect_client(proxy) as client:
        with pytest.raises(ConnectionResetError):
            await client.ask(b"one")
    await proxy.close()
    server.close()


async def test_a_link_with_one_way_brings_no_answer() -> None:
    async with run_echo_proxy() as proxy, connect_client(proxy) as client:
        await client.ask(b"one")
        await proxy.set_mode("one_way")
        assert await client.hears_nothing(b"two")
        await proxy.set_mode("pass")
        assert await client.ask(b"") == b"two"


async def test_a_slow_link_brings_everything_late() -> None:
    async with run_echo_proxy() as proxy, connect_client(proxy) as client:
        await proxy.set_mode("delay")
        began = time.monotonic()
        assert await client.ask(b"one") == b"one"
        assert time.monotonic() - began >= 0.4


@pytest.mark.parametrize("answer", [b"COMMIT\0", b"appended_conversation\0"])
async def test_the_answer_to_one_commit_is_eaten_and_its_connection_reset(answer: bytes) -> None:
    async with run_echo_proxy() as proxy, connect_client(proxy) as client, connect_client(proxy) as other:
        await proxy.set_mode("eat")
        assert await client.ask(b"SELECT") == b"SELECT"
        with pytest.raises(ConnectionResetError):
            await client.ask(answer)
        assert proxy.eaten == 1
        assert await other.ask(answer) == answer
