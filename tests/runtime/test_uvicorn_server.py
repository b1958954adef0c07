import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import uvloop

from agentchat.runtime.listening_socket import is_loopback, open_listening_socket
from agentchat.runtime.settings import SettingsError
from agentchat.runtime.uvicorn_server import limit_to_open_files, raise_open_files, serve
from tests.ports import find_free_port

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class StreamingApp:
    """Streams until it is told to end; notes whether it was started and shut down."""

    def __init__(self, *, starts: bool = True) -> None:
        self.starts = starts
        self.streaming = asyncio.Event()
        self.ending = asyncio.Event()
        self.seen: list[str] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._serve_connection(receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begin ", "more_body": True})
        self.streaming.set()
        await self.ending.wait()
        await send({"type": "http.response.body", "body": b"end"})

    async def _serve_connection(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            self.seen.append(message["type"])
            if not self.starts:
                await send({"type": "lifespan.startup.failed", "message": "no database"})
                return
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(40):
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)


async def open_stream(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await connect(port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return reader, writer


async def test_shutdown_refuses_new_connections_and_drains_open_responses() -> None:
    app, stop, port = StreamingApp(), asyncio.Event(), find_free_port()

    async def on_stop() -> None:
        async with asyncio.timeout(20):
            while True:  # the listener closes within a tick of uvicorn's
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except (ConnectionRefusedError, ConnectionResetError):  # reset: it was still in the backlog
                    break
                writer.close()
                await asyncio.sleep(0.02)
        app.ending.set()

    serving = asyncio.create_task(serve(app, "127.0.0.1", port, stop, on_stop=on_stop))
    reader, writer = await open_stream(port)
    async with asyncio.timeout(20):
        await app.streaming.wait()
        stop.set()
        await serving
        assert b"end" in await reader.read()
    writer.close()
    assert app.seen == ["lifespan.startup", "lifespan.shutdown"]


async def test_shutdown_cancels_a_response_that_outlasts_the_drain() -> None:
    app, stop, port = StreamingApp(), asyncio.Event(), find_free_port()
    serving = asyncio.create_task(serve(app, "127.0.0.1", port, stop, grace_s=1))
    _, writer = await open_stream(port)
    async with asyncio.timeout(20):
        await app.streaming.wait()
        began = time.monotonic()
        stop.set()
        await serving
    writer.close()
    assert time.monotonic() - began < 30
    assert app.seen == ["lifespan.startup", "lifespan.shutdown"]


@pytest.mark.parametrize("turns", range(4))
def test_shutdown_does_not_wait_for_connections_just_accepted(turns: int) -> None:
    uvloop.run(stop_amid_connections(turns))  # as services run


async def stop_amid_connections(turns: int) -> None:
    app, stop, port = StreamingApp(), asyncio.Event(), find_free_port()
    serving = asyncio.create_task(serve(app, "127.0.0.1", port, stop, grace_s=60))
    _, writer = await connect(port)
    writer.close()
    with contextlib.ExitStack() as idle:
        for _ in range(3):  # the loop has no turn meanwhile, so the server has not accepted them
            idle.enter_context(socket.create_connection(("127.0.0.1", port)))
        for _ in range(turns):
            await asyncio.sleep(0)
        stop.set()
        async with asyncio.timeout(20):
            await serving
    assert app.seen == ["lifespan.startup", "lifespan.shutdown"]


async def test_the_date_of_responses_is_that_of_the_clock() -> None:
    app, stop, port = StreamingApp(), asyncio.Event(), find_free_port()
    app.ending.set()
    serving = asyncio.create_task(serve(app, "127.0.0.1", port, stop))

    async def read_date() -> datetime:
        reader, writer = await open_stream(port)
        with contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
        dates = [line[6:] for line in head.decode().splitlines() if line.startswith("date: ")]
        return parsedate_to_datetime(dates[0])

    async with asyncio.timeout(20):
        first = await read_date()
        later = first
        while later == first:
            later = await read_date()
        assert abs(later - datetime.now(UTC)) < timedelta(seconds=5)
        stop.set()
        await serving


async def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(SettingsError) as caught:
            await serve(StreamingApp(), "127.0.0.1", port, asyncio.Event())
    assert str(caught.value) == f"cannot listen on 127.0.0.1:{port}: it is in use"


async def test_an_application_that_does_not_start_ends_the_server() -> None:
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="the application did not start"):
            await serve(StreamingApp(starts=False), "127.0.0.1", 0, asyncio.Event())


def test_the_listening_socket_drops_peers_that_acknowledge_nothing() -> None:
    with open_listening_socket("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


@pytest.mark.parametrize(("most_taken", "found"), [(10_240, 10_240), (256, 256)])
def test_open_file_limit_is_raised_without_a_hard_limit(
    monkeypatch: pytest.MonkeyPatch, most_taken: int, found: int
) -> None:
    """On macOS the hard limit is infinite, and refused as the soft one."""
    limits = (256, resource.RLIM_INFINITY)

    def refuse(_: int, wanted: tuple[int, int]) -> None:
        nonlocal limits
        if not 0 <= wanted[0] <= most_taken:
            raise ValueError("current limit exceeds maximum limit")
        limits = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_open_files() == found
    assert limits == (found, resource.RLIM_INFINITY)


@pytest.mark.parametrize(("wanted", "given"), [(500, 500), (1000, 768), (0, 1)])
def test_connections_are_as_many_as_there_are_files_for(
    monkeypatch: pytest.MonkeyPatch, wanted: int, given: int
) -> None:
    """Some files are left for everything else."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    assert limit_to_open_files(wanted) == given


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("127.0.0.2", True),
        ("[::1]:1", True),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:80", False),
        ("evil.example:127", False),
        ("", False),
    ],
)
def test_a_name_of_another_site_is_no_loopback_one(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours
