"""What the benchmark's client makes of a stream, however it was cut on its way."""

import asyncio

import pytest

from bench.load import Connection, Reply

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


MERGED = b"".join(
    (
        HEAD,
        _chunk(b'data: {"type":"delta","content":"000000 "}\n\n'),
        _chunk(b'data: {"type":"delta","content":"000001 000002 000003 "}\n\n'),
        _chunk(b'data: {"type":"done","conversation_id":"019a0000-0000-7000-8000-000000000001"}\n\n'),
        b"0\r\n\r\n",
    )
)
BROKEN = HEAD + _chunk(b'data: {"type":"error","code":"overloaded","message":"x"}\n\n') + b"0\r\n\r\n"
REFUSED = b'HTTP/1.1 429 Too Many Requests\r\ncontent-length: 22\r\n\r\n{"code":"rate_limited"'


_STATUS = len("HTTP/1.1 200")


class _Sink(asyncio.Transport):
    def write(self, data: bytes | bytearray | memoryview) -> None:
        """The server's part is played by the test."""

    def close(self) -> None:
        """Likewise."""


async def _read(stream: bytes, size: int) -> Reply:
    """The reply, when the server's bytes come in packets of a size, the first with the status."""
    connection = Connection()
    connection.connection_made(_Sink())
    asking = asyncio.create_task(connection.ask(b""))
    await asyncio.sleep(0)
    connection.data_received(stream[:_STATUS])
    for start in range(_STATUS, len(stream), size):
        connection.data_received(stream[start : start + size])
    return await asking


async def test_reply_is_read_however_it_is_cut() -> None:
    for size in (*range(1, 40), len(MERGED)):
        reply = await _read(MERGED, size)
        assert reply.done, size
        assert reply.failed is None
        assert reply.began <= reply.first <= reply.ended


@pytest.mark.parametrize(("stream", "failed"), [(BROKEN, "200 overloaded"), (REFUSED, "429 rate_limited")])
async def test_a_stream_that_fails_has_its_reason(stream: bytes, failed: str) -> None:
    assert (await _read(stream, len(stream))).failed == failed
