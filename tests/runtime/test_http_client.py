"""The HTTP client: what is read, whatever the cuts, and which connections are used again."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from runtime.http.answer import HttpAnswer, HttpBroken, Kept
from runtime.http.client import HttpClient, Origin
from tests.certificates import tls_contexts

pytestmark = pytest.mark.requirement("MODEL-STREAM", "MODEL-ERRORS")

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = b"5\r\nHello\r\n6;x=y\r\n world\r\n0\r\nTrailer: x\r\n\r\n"
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n", b"{}"


class Server:
    """Answers each request with the next of `answers`; `requests` counts them by connection."""

    def __init__(self) -> None:
        self.answers: list[list[bytes]] = []
        self.requests: list[int] = []
        self.close_after: set[int] = set()
        self.let_go = asyncio.Event()
        self.closed: asyncio.Queue[int] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.requests)
        self.requests.append(0)
        try:
            while await reader.readuntil(b"{}"):
                self.requests[number] += 1
                for piece in self.answers.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if sum(self.requests) in self.close_after:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        self.closed.put_nowait(number)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def origin(server: Server) -> AsyncIterator[Origin]:
    async with await asyncio.start_server(server.serve, "127.0.0.1") as listening:
        yield Origin("127.0.0.1", listening.sockets[0].getsockname()[1], False)


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient(ssl.create_default_context(), connect_seconds=5.0, keepalive_seconds=60.0)
    yield made
    await made.aclose()


async def whole(client: HttpClient, origin: Origin) -> tuple[int, bytes]:
    async with client.call(origin, REQUEST) as answer:
        body = Kept(1 << 20)
        await answer.each(body)
        return answer.status, bytes(body.data)


async def test_an_answer_is_the_same_wherever_it_is_cut(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    said = interim + CHUNKED + HELLO
    for cut in range(1, len(said)):
        server.answers = [[said[:cut], said[cut:]]]
        assert await whole(client, origin) == (200, b"Hello world")
    assert server.requests == [len(said) - 1], "one connection for all"


@pytest.mark.parametrize(
    ("answer", "used_again"),
    [
        (HEAD + b"Content-Length: 2\r\n\r\nhi", True),
        (HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", False),
        (HEAD + b"Content-Length: 2\r\n\r\nhi" + HEAD, False),
        (HEAD + b"Content-Length: 2\r\n\r\nhi" + HEAD + b"Content-Length: 3\r\n\r\nyou", False),
    ],
)
async def test_a_connection_is_used_again_where_both_sides_know_that_it_may_be(
    client: HttpClient, origin: Origin, server: Server, answer: bytes, used_again: bool
) -> None:
    server.answers = [[answer], [answer]]
    assert [await whole(client, origin) for _ in range(2)] == [(200, b"hi")] * 2
    assert server.requests == ([2] if used_again else [1, 1])


async def test_a_connection_whose_request_was_answered_before_it_was_read_is_not_used_again(
    client: HttpClient,
) -> None:
    """Whoever does not read the rest would not read the next request either."""
    asked: list[int] = []
    let_go = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(len(await reader.readuntil(b"\r\n\r\n")))
        writer.write(HEAD + b"Content-Length: 2\r\n\r\nhi")
        await let_go.wait()
        writer.close()

    size = 64 << 20
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size
    async with await asyncio.start_server(serve, "127.0.0.1") as listening:
        origin = Origin("127.0.0.1", listening.sockets[0].getsockname()[1], False)
        async with asyncio.timeout(20):
            for request in ((head, b"x" * size), REQUEST):
                async with client.call(origin, request) as answer:
                    await answer.rest(20)
                    assert answer.is_complete
        let_go.set()
    assert len(asked) == 2


async def test_a_body_without_a_length_ends_with_its_connection(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    server.answers, server.close_after = [[HEAD + b"\r\n", b"as long", b" as it is"]], {1}
    assert await whole(client, origin) == (200, b"as long as it is")


async def test_a_kept_connection_that_the_server_closed_is_not_used(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    server.answers, server.close_after = [[CHUNKED + HELLO], [CHUNKED + HELLO]], {1}
    await whole(client, origin)
    await server.closed.get()
    async with asyncio.timeout(10):
        while client._open:  # noqa: ASYNC110 - the socket's own news
            await asyncio.sleep(0)
    assert await whole(client, origin) == (200, b"Hello world")
    assert server.requests == [1, 1]


async def test_a_connection_that_nobody_used_for_long_is_closed(origin: Origin, server: Server) -> None:
    client = HttpClient(ssl.create_default_context(), connect_seconds=5.0, keepalive_seconds=0.05)
    server.answers = [[CHUNKED + HELLO]]
    await whole(client, origin)
    async with asyncio.timeout(10):
        assert await server.closed.get() == 0
    await client.aclose()


BROKEN: list[list[bytes]] = [
    [b"no HTTP\r\n\r\n"],
    [CHUNKED + b"5\r\nHel"],
    [HEAD + b"Content-Length: 9\r\n\r\nshort"],
    [CHUNKED + b"5\r\nHelloXX"],
    [HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi"],
    [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
    [HEAD, *([b"x: " + b"y" * 50_000 + b"\r\n"] * 4)],
    [HEAD + b"x: ", *([b"y" * 50_000] * 4)],
    [],
]


@pytest.mark.parametrize(
    "pieces", BROKEN, ids=lambda pieces: pieces[0][:40].decode() if pieces else "nothing"
)
async def test_what_is_broken_is_said_and_its_connection_not_used_again(
    client: HttpClient, origin: Origin, server: Server, pieces: list[bytes]
) -> None:
    server.answers, server.close_after = [pieces, [CHUNKED + HELLO]], {1}
    with pytest.raises(HttpBroken):
        await whole(client, origin)
    assert await whole(client, origin) == (200, b"Hello world")
    assert server.requests == [1, 1]


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (HEAD + b"x: ", b"y"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (CHUNKED + b"5;x=", b"y"),
        (CHUNKED + HELLO[:-4], b"y"),
    ],
    ids=["head", "interim", "extension", "trailer"],
)
async def test_what_goes_on_without_end_and_without_a_body_is_given_up(
    client: HttpClient, begin: bytes, more: bytes
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(begin)
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(more * 1024)
                await writer.drain()
                await asyncio.sleep(0)

    async with await asyncio.start_server(serve, "127.0.0.1") as listening:
        origin = Origin("127.0.0.1", listening.sockets[0].getsockname()[1], False)
        with pytest.raises(HttpBroken):
            async with asyncio.timeout(20):
                await whole(client, origin)


class Slow:
    """Takes a piece at a time, and is done after so many bytes."""

    def __init__(self, until: int, hurry: Callable[[], Awaitable[None]]) -> None:
        self._until, self._hurry = until, hurry
        self.taken = 0
        self.busy = False

    @property
    def done(self) -> bool:
        return self.taken >= self._until

    def take(self, piece: bytes) -> Callable[[], Awaitable[None]]:
        assert not self.busy, "it has the piece before in hand"
        self.busy = True
        self.taken += len(piece)
        return self._rest

    async def _rest(self) -> None:
        await self._hurry()
        self.busy = False


async def test_a_taker_gets_the_next_piece_when_it_is_ready_and_none_when_it_is_done(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    size = 4 << 20
    server.answers = [[HEAD + b"Content-Length: %d\r\n\r\n" % size, *([b"x" * 65536] * 64)]]
    async with client.call(origin, REQUEST) as answer:
        taker = Slow(size // 2, lambda: asyncio.sleep(0))
        await answer.each(taker)
        assert size // 2 <= taker.taken < size
        await answer.rest(10)
        assert answer.is_complete


async def test_a_taker_that_is_busy_has_the_socket_wait(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    size = 64 << 20
    server.answers = [[HEAD + b"Content-Length: %d\r\n\r\n" % size, *([b"x" * 65536] * 1024)]]
    async with client.call(origin, REQUEST) as answer:
        paused = asyncio.Event()
        stop = answer._pause

        def pause() -> None:
            stop()
            paused.set()

        answer._pause = pause
        async with asyncio.timeout(20):
            await answer.each(Slow(1, paused.wait))  # type: ignore[arg-type]  # it returns True
        assert answer._held() < 2 << 20


async def test_what_a_taker_raises_comes_out_and_the_connection_is_dropped(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    class Raising:
        done = False

        def take(self, _piece: bytes) -> None:
            raise LookupError

    server.answers = [[CHUNKED + HELLO], [CHUNKED + HELLO]]
    with pytest.raises(LookupError):
        async with client.call(origin, REQUEST) as answer:
            await answer.each(Raising())
    assert await whole(client, origin) == (200, b"Hello world")
    assert server.requests == [1, 1]


async def test_a_call_that_is_cancelled_drops_its_connection(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    server.answers = [[CHUNKED + b"5\r\nHello\r\n"]]
    began = asyncio.Event()

    async def read() -> None:
        async with client.call(origin, REQUEST) as answer:
            began.set()
            await answer.each(Kept(100))

    reading = asyncio.create_task(read())
    await began.wait()
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    async with asyncio.timeout(10):
        assert await server.closed.get() == 0


async def test_what_a_taker_would_do_is_not_begun_behind_a_cancellation() -> None:
    """The piece and the cancellation come in one turn: a coroutine would be left that nobody awaits."""
    left: list[int] = []

    class Taker:
        done = False

        def take(self, piece: bytes) -> Callable[[], Awaitable[None]]:
            left.append(len(piece))
            return self._rest

        async def _rest(self) -> None:
            left.clear()

    answer = HttpAnswer(lambda: None, lambda: None)
    answer.received(HEAD + b"Content-Length: 9\r\n\r\n")
    reading = asyncio.create_task(answer.each(Taker()))
    await asyncio.sleep(0)
    answer.received(b"Hello")
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert left == [5]


async def test_it_speaks_tls_and_knows_whom_it_speaks_to(server: Server) -> None:
    theirs, ours = tls_contexts("localhost")
    strangers = HttpClient(ssl.create_default_context(), connect_seconds=5.0, keepalive_seconds=60.0)
    friends = HttpClient(ours, connect_seconds=5.0, keepalive_seconds=60.0)
    server.answers = [[CHUNKED + HELLO]]
    async with await asyncio.start_server(server.serve, "127.0.0.1", ssl=theirs) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(ssl.SSLError):
            await whole(strangers, Origin("localhost", port, True))
        with pytest.raises(ssl.SSLError):
            await whole(friends, Origin("127.0.0.1", port, True))
        assert await whole(friends, Origin("localhost", port, True)) == (200, b"Hello world")
        await friends.aclose()


async def test_no_connection_in_time_is_a_timeout() -> None:
    """Nothing answers there: the handshake of TLS does not begin."""
    closed = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        closed.set()

    client = HttpClient(ssl.create_default_context(), connect_seconds=0.1, keepalive_seconds=60.0)
    async with await asyncio.start_server(silent, "127.0.0.1") as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(TimeoutError):
            await whole(client, Origin("localhost", port, True))
        await closed.wait()


async def test_a_compressed_answer_is_one_where_nobody_reads_it(origin: Origin, server: Server) -> None:
    tls = ssl.create_default_context()
    client = HttpClient(tls, connect_seconds=5.0, keepalive_seconds=60.0, any_encoding=True)
    server.answers = [[HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi"]]
    assert await whole(client, origin) == (200, b"hi")
    await client.aclose()


async def test_it_connects_where_the_look_up_says(origin: Origin, server: Server) -> None:
    asked: list[tuple[str, int]] = []

    async def look_up(host: str, port: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        asked.append((host, port))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]

    tls = ssl.create_default_context()
    client = HttpClient(tls, connect_seconds=5.0, keepalive_seconds=60.0, look_up=look_up)
    server.answers = [[CHUNKED + HELLO], [CHUNKED + HELLO]]
    elsewhere = origin._replace(host="hooks.example")
    assert [await whole(client, elsewhere) for _ in range(2)] == [(200, b"Hello world")] * 2
    assert asked == [("hooks.example", origin.port)], "once a connection"
    await client.aclose()


async def test_a_head_is_known_before_its_body_comes(
    client: HttpClient, origin: Origin, server: Server
) -> None:
    server.answers = [[b"HTTP/1.1 529 Overloaded\r\nRetry-After: 3\r\ncontent-length: 2\r\n\r\n"]]
    async with client.call(origin, REQUEST) as answer:
        assert isinstance(answer, HttpAnswer)
        assert (answer.status, dict(answer.headers)[b"retry-after"]) == (529, b"3")
