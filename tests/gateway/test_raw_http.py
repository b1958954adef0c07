"""HTTP as no client library sends it (docs/change/design.md 6): 4xx or one reading, never a hang."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.client import Client
from tests.gateway.conftest import Accounts
from tests.gateway.process import GatewayProcess, gateway_process
from tests.gateway.sockets import PROBE, ask, connected
from tests.gateway.worker import Worker

HOST = b"Host: x\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
POST = b"POST /v1/chat HTTP/1.1\r\n" + HOST
BODY = b'{"message":""}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = POST + b"KEYS" + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = POST + b"KEYS" + LENGTH
END = b"\r\n0\r\n\r\n"


def line(request: bytes) -> bytes:
    return request + b"\r\n" + HOST + b"\r\n"


# What can be read in two ways, or not at all: one 400, and the connection ends.
BROKEN = {
    "length and coding": WHOLE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": POST + b"Transfer-Encoding: chunked\r\n" + LENGTH + b"\r\n0\r\n\r\n",
    "coding twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding listed twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "coding gzip": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "coding unknown": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding with a tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "coding with a space": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "coding empty": POST + b"Transfer-Encoding:\r\n" + LENGTH + b"\r\n" + BODY,
    "coding in 1.0": b"POST /v1/chat HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "length twice": WHOLE + LENGTH + b"\r\n" + BODY,
    "lengths that differ": WHOLE + b"Content-Length: 3\r\n\r\n" + BODY,
    "length listed": POST + b"Content-Length: 14, 14\r\n\r\n" + BODY,
    "length negative": POST + b"Content-Length: -1\r\n\r\n" + BODY,
    "length signed": POST + b"Content-Length: +14\r\n\r\n" + BODY,
    "length hexadecimal": POST + b"Content-Length: 0xe\r\n\r\n" + BODY,
    "length empty": POST + b"Content-Length:\r\n\r\n" + BODY,
    "length huge": POST + b"Content-Length: 99999999999999999999\r\n\r\n" + BODY,
    "length a word": POST + b"Content-Length: ten\r\n\r\n" + BODY,
    "only LF": (WHOLE + b"\r\n").replace(b"\r\n", b"\n") + BODY,
    "one LF": WHOLE + b"X-A: b\n\r\n" + BODY,
    "LF ends the head": WHOLE[:-2] + b"\n\n" + BODY,
    "CR alone": WHOLE + b"X-A: b\rX-B: c\r\n\r\n" + BODY,
    "CR CR LF": WHOLE + b"X-A: b\r\r\n\r\n" + BODY,
    "folded": WHOLE + b"X-A: b\r\n c\r\n\r\n" + BODY,
    "folded first": b"POST /v1/chat HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n",
    "folded key": POST + b"X-Api-Key:\r\n\tsk-ac-x\r\n\r\n",
    "space before the colon": WHOLE + b"X-Api-Key : sk-ac-x\r\n\r\n" + BODY,
    "header without name": WHOLE + b": b\r\n\r\n" + BODY,
    "header without colon": WHOLE + b"XA\r\n\r\n" + BODY,
    "NUL in a value": WHOLE + b"X-A: a\x00b\r\n\r\n" + BODY,
    "NUL in a key": POST + b"X-Api-Key: sk-a\x00\r\n\r\n",
    "NUL in a name": WHOLE + b"X\x00A: b\r\n\r\n" + BODY,
    "control in a value": WHOLE + b"X-A: a\x01b\r\n\r\n" + BODY,
    "latin-1 in a name": WHOLE + b"X-\xe9: a\r\n\r\n" + BODY,
    "huge value": WHOLE + b"X: " + b"a" * 100_000 + b"\r\n\r\n" + BODY,
    "huge name": WHOLE + b"X" * 100_000 + b": a\r\n\r\n" + BODY,
    "huge address": line(b"GET /" + b"a" * 100_000 + b" HTTP/1.1"),
    "many headers": WHOLE + b"".join(b"X-%d: a\r\n" % i for i in range(300)) + b"\r\n" + BODY,
    "many empty headers": WHOLE + b"X:\r\n" * 20_000 + b"\r\n" + BODY,
    "chunk extension with LF": CHUNKED + b"e;a\n" + BODY + END,
    "chunk extension with CR": CHUNKED + b"e;a\rb\r\n" + BODY + END,
    "chunk extension huge": CHUNKED + b"e;" + b"a" * 1_000_000 + b"\r\n" + BODY + END,
    "chunk extensions without end": CHUNKED + (b"1;" + b"a" * 30_000 + b"\r\n{\r\n") * 30,
    "chunk negative": CHUNKED + b"-1\r\n" + BODY + END,
    "chunk 0x": CHUNKED + b"0xe\r\n" + BODY + END,
    "chunk overflowing": CHUNKED + b"fffffffffffffffff\r\n" + BODY + END,
    "chunk a word": CHUNKED + b"zz\r\n" + BODY + END,
    "chunk without size": CHUNKED + b"\r\n" + BODY + END,
    "chunk with spaces": CHUNKED + b" e \r\n" + BODY + END,
    "chunk with LF": CHUNKED + b"e\n" + BODY + b"\n0\n\n",
    "chunk too long": CHUNKED + b"5\r\n" + BODY + END,
    "chunk without end": CHUNKED + b"e\r\n" + BODY + b"0\r\n\r\n",
    "trailer with a length": CHUNKED + b"e\r\n" + BODY + b"\r\n0\r\nContent-Length: 4\r\n\r\n",
    "trailer with a coding": CHUNKED + b"e\r\n" + BODY + b"\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "trailer huge": CHUNKED + b"e\r\n" + BODY + b"\r\n0\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "trailer without colon": CHUNKED + b"e\r\n" + BODY + b"\r\n0\r\nbad\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/1.2": line(b"GET /healthz HTTP/1.2"),
    "HTTP/2.0": line(b"GET /healthz HTTP/2.0"),
    "HTTP/1.01": line(b"GET /healthz HTTP/1.01"),
    "http/1.1": line(b"GET /healthz http/1.1"),
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 30,
    "NULs": b"\x00" * 100,
    "not a request": b"GARBAGE\r\n\r\n",
    "authority form": line(b"GET x:80 HTTP/1.1"),
    "CONNECT": line(b"CONNECT x:80 HTTP/1.1"),
    "CONNECT to an address": line(b"CONNECT /v1/chat HTTP/1.1"),
    "absolute form without path": line(b"GET http://x HTTP/1.1"),
    "absolute form broken": line(b"GET http://[::1/healthz HTTP/1.1"),
    "no slash": line(b"GET healthz HTTP/1.1"),
    "no address": line(b"GET  HTTP/1.1"),
    "backslash": line(b"GET \\healthz HTTP/1.1"),
    "space in the address": line(b"GET /health z HTTP/1.1"),
    "tab in the address": line(b"GET /health\tz HTTP/1.1"),
    "8 bits in the address": line(b"GET /\xff HTTP/1.1"),
    "8 bits in the query": line(b"GET /healthz?\xc3\xa9 HTTP/1.1"),
    "fragment": line(b"GET /healthz#x HTTP/1.1"),
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "host twice": GET + HOST + b"\r\n",
    "host empty": b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    "host with a path": b"GET /healthz HTTP/1.1\r\nHost: x/y@z\r\n\r\n",
    "hosts": b"GET /healthz HTTP/1.1\r\nHost: x, y\r\n\r\n",
    "lower case": line(b"get /healthz HTTP/1.1"),
    "unknown method": line(b"BREW /healthz HTTP/1.1"),
    "space before the method": line(b" GET /healthz HTTP/1.1"),
}

# What has one reading: its answers in order, and the connection goes on as if nothing was.
READ: dict[str, tuple[bytes, list[int]]] = {
    "chunk extension": (CHUNKED + b'e;a=b;c="d;"\r\n' + BODY + END, [400]),
    "chunk by chunk": (CHUNKED + b"".join(b"1\r\n%c\r\n" % c for c in BODY) + END[2:], [400]),
    "chunk with zeros": (CHUNKED + b"0000000000e\r\n" + BODY + END, [400]),
    "coding with spaces": (POST + b"KEYSTransfer-Encoding:  Chunked  \r\n\r\ne\r\n" + BODY + END, [400]),
    "trailer": (CHUNKED + b"e\r\n" + BODY + b"\r\n0\r\nX-Sum: 1\r\n\r\n", [400]),
    "length with zeros": (POST + b"KEYSContent-Length: 00014\r\n\r\n" + BODY, [400]),
    "no body": (POST + b"KEYS\r\n", [400]),
    "latin-1 in a value": (WHOLE + b"X-A: \xe9\xff\r\n\r\n" + BODY, [400]),
    "latin-1 in the key": (POST + b"X-Api-Key: sk-\xe9\r\n\r\n", [401]),
    "latin-1 in the agent": (POST + b"KEYX-Agent-Id: \xe9\r\n\r\n", [400]),
    "latin-1 in the type": (POST + b"KEYAGENTContent-Type: application/json; charset=\xe9\r\n\r\n", [415]),
    "TRACE": (line(b"TRACE /v1/chat HTTP/1.1"), [405]),
    "QUERY": (line(b"QUERY /v1/chat HTTP/1.1"), [405]),
    "PROPFIND": (line(b"PROPFIND /v1/chat HTTP/1.1"), [405]),
    "offer of a websocket": (GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", [200]),
    "offer of HTTP/2": (
        WHOLE + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n" + BODY,
        [400],
    ),
    "offers in a row": (2 * (GET + b"Connection: upgrade\r\nUpgrade: x\r\n\r\n") + GET + b"\r\n", [200] * 3),
    "absolute form": (line(b"GET http://x/healthz HTTP/1.1"), [404]),
    "any address": (line(b"OPTIONS * HTTP/1.1"), [404]),
    "empty lines before": (b"\r\n\r\n" + GET + b"\r\n", [200]),
    "body of a GET": (GET + b"Content-Length: 3\r\n\r\nabc", [200]),
    "body that is a request": (
        WHOLE[:-2].replace(b": 14", b": %d" % len(PROBE)) + b"\r\n\r\n" + PROBE,
        [400],
    ),
    "expectation": (WHOLE + b"Expect: 100-continue\r\n\r\n" + BODY, [100, 400]),
    "unknown expectation": (WHOLE + b"Expect: 200-ok\r\n\r\n" + BODY, [400]),
    "three in a row": (GET + b"\r\n" + WHOLE + b"\r\n" + BODY + line(b"GET /nope HTTP/1.1"), [200, 400, 404]),
    "dot segments": (line(b"GET /v1/../healthz HTTP/1.1"), [404]),
    "encoded dot segments": (line(b"GET /v1/%2e%2e/healthz HTTP/1.1"), [404]),
    "encoded letters": (line(b"GET /h%65althz HTTP/1.1"), [404]),
    "encoded dot": (line(b"GET /openapi%2Ejson HTTP/1.1"), [404]),
    "encoded slash": (line(b"GET /v1%2Fconversations HTTP/1.1"), [404]),
    "encoded slash in an id": (GET.replace(b"healthz", b"v1/conversations/a%2fmessages") + b"KEY\r\n", [404]),
    "double slash": (line(b"GET //healthz HTTP/1.1"), [404]),
    "slash at the end": (line(b"GET /healthz/ HTTP/1.1"), [404]),
    "encoded nonsense": (line(b"GET /%zz%ff%00%0d%0aX:y HTTP/1.1"), [404]),
    "encoded nonsense as an id": (GET.replace(b"healthz", b"v1/conversations/%ff%00%0a") + b"KEY\r\n", [404]),
}

# Read, answered, and then closed: by the version, by the caller's wish, or because a body may be on its way.
LAST: dict[str, tuple[bytes, list[int]]] = {
    "HTTP/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n" + PROBE, [200]),
    "HTTP/1.0 that would go on": (b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + PROBE, [200]),
    "expectation in 1.0": (WHOLE.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\n\r\n" + BODY, [400]),
    "more after the last": (GET + b"Connection: close\r\n\r\n" + PROBE, [200]),
    "body longer than announced": (WHOLE + b"\r\n" + BODY + b"XXXX", [400, 400]),
    "nonsense after a request": (GET + b"\r\nGARBAGE\r\n\r\n" + PROBE, [200, 400]),
    "nonsense amid requests": (WHOLE + b"\r\n" + BODY + b"GARBAGE\r\n\r\n" + PROBE, [400, 400]),
    "trailers that pass for headers": (
        POST + b"Transfer-Encoding: chunked\r\n\r\ne\r\n" + BODY + b"\r\n0\r\nKEYS\r\n",
        [401],
    ),
    "broken body after requests": (2 * (GET + b"\r\n") + CHUNKED + b"zz\r\n" + PROBE, [200, 200, 400]),
    "broken head after requests": (2 * (GET + b"\r\n") + GET + HOST + b"\r\n" + PROBE, [200, 200, 400]),
}

# Answered before the body comes; some of it is still read, so that the answer is not lost.
UNSENT: dict[str, tuple[bytes, list[int]]] = {
    "expectation without key": (POST + LENGTH + b"Expect: 100-continue\r\n\r\n", [401]),
    "length over the bound": (POST + b"KEYSContent-Length: 9223372036854775808\r\n\r\n", [413]),
}


@pytest.fixture
def keyed(client: Client) -> dict[bytes, bytes]:
    """What stands for the caller's headers in the requests above."""
    key = f"X-Api-Key: {client.headers['X-Api-Key']}\r\n".encode()
    agent = f"X-Agent-Id: {client.headers['X-Agent-Id']}\r\n".encode()
    return {b"KEYS": key + agent + b"Content-Type: application/json\r\n", b"KEY": key, b"AGENT": agent}


def with_keys(data: bytes, keyed: dict[bytes, bytes]) -> bytes:
    for word, headers in keyed.items():
        data = data.replace(word, headers)
    return data


@pytest.mark.parametrize("name", BROKEN)
async def test_what_has_no_single_reading_is_refused(
    gateway: GatewayProcess, keyed: dict[bytes, bytes], name: str
) -> None:
    answers = await ask(gateway.port, with_keys(BROKEN[name], keyed))
    assert [answer.status for answer in answers] == [400]
    assert answers[0].check_refusal()["code"] == "invalid_request"
    assert answers[0].headers["connection"] == "close"


@pytest.mark.parametrize("name", READ)
async def test_what_is_odd_is_read_in_one_way_and_the_connection_goes_on(
    gateway: GatewayProcess, keyed: dict[bytes, bytes], name: str
) -> None:
    data, statuses = READ[name]
    answers = await ask(gateway.port, with_keys(data, keyed) + PROBE)
    assert [answer.status for answer in answers] == [*statuses, 200]
    for answer in answers:
        assert answer.status < 400 or answer.check_refusal()


@pytest.mark.parametrize("name", [*LAST, *UNSENT])
async def test_answers_come_in_the_order_of_their_requests_up_to_the_last(
    gateway: GatewayProcess, keyed: dict[bytes, bytes], name: str
) -> None:
    data, statuses = (LAST | UNSENT)[name]
    async with connected(gateway.port) as connection:
        connection.send(with_keys(data, keyed))
        answers = await connection.answers()
        assert [answer.status for answer in answers] == statuses
        assert answers[-1].headers["connection"] == "close"
        assert name in UNSENT or await connection.reader.read() == b""


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/docs", 200), ("/nope", 404), ("/v1/chat", 405), ("/v1/conversations", 401)],
)
async def test_head_has_the_headers_of_get_and_no_body(
    gateway: GatewayProcess, path: str, status: int
) -> None:
    heading = await ask(gateway.port, line(f"HEAD {path} HTTP/1.1".encode()) + PROBE, head=True)
    getting = await ask(gateway.port, line(f"GET {path} HTTP/1.1".encode()) + PROBE)
    assert [answer.status for answer in heading] == [answer.status for answer in getting] == [status, 200]
    own = {"x-trace-id": "", "date": ""}
    assert heading[0].headers | own == getting[0].headers | own
    refused = await ask(gateway.port, b"HEAD /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", head=True)
    assert [answer.status for answer in refused] == [400]


@pytest.fixture(scope="module")
async def impatient(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayProcess]:
    """A gateway that waits less than a second, for at most 20 callers."""
    hurry = {
        "http.strict_protocol.HEAD_SECONDS": 0.6,
        "http.strict_protocol.BODY_SECONDS": 0.9,
        "http.strict_json.BODY_SECONDS": 0.6,
    }
    folder = tmp_path_factory.mktemp("impatient")
    async with gateway_process(folder, {**environ, "AGENTCHAT_MAX_CONNECTIONS": "20"}, hurry) as process:
        yield process


async def test_a_request_that_does_not_come_is_not_waited_for(
    impatient: GatewayProcess, keyed: dict[bytes, bytes]
) -> None:
    waits = {
        b"": [],
        b"\r\n": [],
        b"GET /healthz HTTP/1.1\r\nX-Slow:": [400],
        GET + b"\r\n" + b"GET /he": [200, 400],
        GET + b"Content-Length: 9\r\n\r\nabc": [200],
        WHOLE + b"\r\n" + BODY[:-1]: [400],
        CHUNKED + b"ffffffffffffffff\r\n" + BODY: [400],
        POST + b"Content-Length: 99\r\n\r\n": [401],
    }

    async def wait(data: bytes) -> list[int]:
        async with connected(impatient.port) as connection:
            connection.send(with_keys(data, keyed))
            answers = await connection.answers()
            assert await connection.reader.read() == b""
            return [answer.status for answer in answers]

    assert await asyncio.gather(*map(wait, waits)) == list(waits.values())
    async with connected(impatient.port) as connection:
        connection.send(GET + b"\r\n")
        assert await connection.answer() is not None
        connection.send(b"\r\n")
        assert await connection.reader.read() == b""


async def test_half_a_request_behind_a_stream_does_not_end_the_stream(
    impatient: GatewayProcess, client: Client, worker: Worker
) -> None:
    async with connected(impatient.port) as connection:
        connection.send(client.bytes())
        turn = await (await worker.next()).accept()
        await connection.reader.readuntil(b'"meta"')
        connection.send(b"GET /he\x00")
        await turn.delta("Hel")
        await connection.reader.readuntil(b'"Hel"')
        await asyncio.sleep(1.5)  # more than a head may take
        await turn.answer_from_here("lo")
        rest = await connection.reader.read()
    stream, refusal = rest.split(b"\r\n0\r\n\r\n")
    assert b'"content":"lo"' in stream
    assert b'"type":"done"' in stream
    assert refusal.startswith(b"HTTP/1.1 400 ")


async def test_one_caller_too_many_is_told_so(
    impatient: GatewayProcess, accounts: Accounts, tmp_path: Path
) -> None:
    ready = PROBE.replace(b"healthz", b"readyz")
    async with contextlib.AsyncExitStack() as held:
        for _ in range(20):
            connection = await held.enter_async_context(connected(impatient.port))
            connection.send(GET + b"\r\n")
            assert await connection.answer() is not None
        (refused,) = await ask(impatient.port, ready)
        assert refused.status == 503
        assert refused.check_refusal()["code"] == "overloaded"
        assert int(refused.headers["retry-after"]) >= 1
        assert [answer.status for answer in await ask(impatient.port, PROBE)] == [200]
    async with asyncio.timeout(40):
        while (await ask(impatient.port, ready))[0].status != 200:
            pass
