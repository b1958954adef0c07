"""One HTTP exchange over a raw socket, so that every byte and every way of ending is known."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

from tests.chaos.records import Clock, End, Exchange

_SECONDS = 90.0
_CALL_SECONDS = 15.0
_FAR = 16 * 1024 * 1024

Arrived = Callable[[], None]


async def request(
    port: int, method: str, path: str, headers: dict[str, str], body: dict[str, object] | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send it. Raises OSError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_FAR)
    payload = b"" if body is None else json.dumps(body).encode()
    sent = {"Host": f"127.0.0.1:{port}", "Connection": "close", **headers}
    if body is not None:
        sent |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    writer.write("\r\n".join(lines).encode() + payload)
    return reader, writer


async def perform(
    exchange: Exchange,
    port: int,
    headers: dict[str, str],
    body: dict[str, object],
    clock: Clock,
    on_news: Arrived = lambda: None,
) -> None:
    """Fill `exchange` with what comes; `on_news` is called at the head and at each piece of the body.

    Cancelled, the client goes, and `end` is `left`.
    """
    path = "/v1/chat" if exchange.form == "json" else "/v1/chat/stream"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await request(port, "POST", path, headers, body)
            exchange.end = await _read(exchange, reader, clock, on_news)
    except ConnectionRefusedError:
        exchange.end = "refused"
    except TimeoutError:
        exchange.end = "timeout"
    except (OSError, asyncio.IncompleteReadError):
        exchange.end = "reset"
    except asyncio.CancelledError:
        exchange.end = "left"
        raise
    finally:
        exchange.ended = clock.now()
        if writer is not None:
            writer.transport.abort()


async def _read(exchange: Exchange, reader: asyncio.StreamReader, clock: Clock, on_news: Arrived) -> End:
    exchange.status, exchange.headers = await read_head(reader)
    on_news()
    pending = b""
    async for piece in _pieces(reader, exchange.headers):
        pending += piece
        text, pending = _decode_characters(pending)
        exchange.body += text
        exchange.arrivals.append((clock.now(), len(exchange.body)))
        on_news()
    return "eof"


async def call_gateway(
    port: int, key: str, method: str, path: str, body: dict[str, object] | None = None
) -> tuple[int, str] | None:
    """Status and body of an answer; None where no whole one came."""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(_CALL_SECONDS):
            reader, writer = await request(port, method, path, {"X-Api-Key": key}, body)
            try:
                status, headers = await read_head(reader)
                return status, b"".join([piece async for piece in _pieces(reader, headers)]).decode()
            finally:
                writer.transport.abort()
    return None


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer, names in lower case. Raises IncompleteReadError."""
    first, headers = await read_lines(reader)
    return int(first.split(" ")[1]), headers


async def read_lines(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    """The first line and the headers of a message (RFC 9112, 2.1). Raises IncompleteReadError."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return first, {name.lower(): value.strip() for name, _, value in pairs}


async def _pieces(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The body as it comes (RFC 9112, 6). Raises IncompleteReadError where it breaks off."""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
    elif length := int(headers.get("content-length", "0")):
        yield await reader.readexactly(length)


def _decode_characters(data: bytes) -> tuple[str, bytes]:
    """The whole characters, and what is left of a character that is not whole."""
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode(), b""
    for cut in (1, 2, 3):
        with contextlib.suppress(UnicodeDecodeError):
            return data[:-cut].decode(), data[-cut:]
    return data.decode("utf-8", "replace"), b""
