"""The router's application: a request goes to the cell of its key, and the answer comes back piece by piece.

A redirect would do less: HTTP clients drop the key on the way to another host, and few of them repeat a POST
whose answer is a stream. A body is read before it is sent on (1 MiB at most), so that a request whose account
has just moved can be sent once more, to the other cell: the first one has refused it.
"""

import asyncio
import contextlib
import re
from collections.abc import Mapping

import aiohttp
from yarl import URL

from contracts.timings import FOLLOW_SECONDS, PING_SECONDS
from gateway.cells.find_cell import CellFinder
from gateway.http import problem_responses
from gateway.http.exchange import SEND_SECONDS, TARGET, ClientGone, Exchange, Receive, Scope, Send, of
from gateway.http.problem_responses import Refusal
from gateway.http.strict_json import receive_body
from runtime import logs

CONNECT_SECONDS = 2.0
SILENT_SECONDS = 3 * PING_SECONDS
"""Of a stream: a cell that lives sends a comment each PING_SECONDS."""

_KEY = re.compile(rb"(?:bearer +)?([!-~]{1,256})\Z", re.IGNORECASE)
_KEY_HEADERS = (b"authorization", b"x-api-key", b"api-key")
_OWN = ("/healthz", "/readyz")
_OF_ONE_CELL = ("/admin/", "/v1/oauth/")
"""What is asked of a cell at its own address."""
_OF_A_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding"),
        *(b"upgrade", b"host", b"content-length", b"expect", b"x-forwarded-for"),
    )
)
_AWAY = (aiohttp.ClientError, TimeoutError, OSError)


class CellProxy:
    """ASGI, within RequestMiddleware. `cells` are addresses by name."""

    def __init__(self, cells: Mapping[str, str], session: aiohttp.ClientSession) -> None:
        self._cells = cells
        self._session = session
        self._finder = CellFinder(cells, session)
        self._log = logs.get_logger("router")

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        exchange = of(scope)
        try:
            await self._answer(exchange)
        except Refusal as refusal:
            await problem_responses.answer(exchange, refusal)
        except ClientGone:
            return

    async def _answer(self, exchange: Exchange) -> None:
        path: str = exchange.scope["path"]
        if path in _OWN:
            await exchange.answer(200, b"application/json", b'{"status":"ok"}', ())
            return
        if path.startswith(_OF_ONE_CELL):
            raise Refusal("not_found", "Use the address of the cell.")
        body = await receive_body(exchange)
        sending = asyncio.ensure_future(self._to_its_cell(exchange, body))

        def leave() -> None:
            sending.cancel()

        exchange.watch(leave)
        try:
            await asyncio.wait((sending,))
        finally:
            sending.cancel()
        if sending.cancelled():
            raise ClientGone
        sending.result()

    async def _to_its_cell(self, exchange: Exchange, body: bytes) -> None:
        key, hops = _key_of(exchange), _hops(exchange)
        if key is None:
            await self._send(exchange, next(iter(self._cells)), body, hops)
            return
        cached = self._finder.cached(key)
        if cached is not None:
            if await self._send(exchange, cached, body, hops, unless=(401, 421)):
                return
            self._finder.forget(key)
        if not await self._send(exchange, await self._finder.find(key, hops), body, hops, unless=(421,)):
            self._finder.forget(key)
            raise Refusal("account_moving")

    async def _send(
        self, exchange: Exchange, cell: str, body: bytes, hops: str, *, unless: tuple[int, ...] = ()
    ) -> bool:
        """Send on the request, and the answer back; False where its status is one of `unless`.

        Raises Refusal: 503 where the cell does not answer. If its answer breaks off, so does ours.
        """
        target = exchange.scope["extensions"][TARGET]["bytes"].decode("ascii")
        url = URL(f"{self._cells[cell]}{target}", encoded=True)
        headers = [*_passed(exchange.scope["headers"]), ("X-Forwarded-For", hops)]
        try:
            async with self._session.request(
                exchange.scope["method"], url, headers=headers, data=body or None, allow_redirects=False
            ) as answer:
                if answer.status in unless:
                    return False
                exchange.answer_as(answer.headers.get("X-Trace-Id", exchange.trace_id))
                await exchange.start(answer.status, _returned(answer))
                await _pass_on(exchange, answer)
        except _AWAY as error:
            self._log.warning("cell_away", cell=cell, reason=str(error) or type(error).__name__)
            if exchange.status is None:
                raise Refusal("overloaded", "The cell of this account does not answer.") from None
            exchange.abort()
        return True


async def _pass_on(exchange: Exchange, answer: aiohttp.ClientResponse) -> None:
    """Each piece when it comes. Raises what aiohttp does, TimeoutError, ClientGone."""
    silent = SILENT_SECONDS if answer.content_type == "text/event-stream" else None
    while True:
        async with asyncio.timeout(silent):
            piece = await answer.content.readany()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEND_SECONDS):
                await exchange.body(piece, more=bool(piece))
                if piece:
                    continue
                return
        exchange.abort()
        raise ClientGone


def open_session() -> aiohttp.ClientSession:
    """Connections to the cells. They are given up before the gateways there do that, at 30 s."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15.0),
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=FOLLOW_SECONDS + PING_SECONDS
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


def _key_of(exchange: Exchange) -> str | None:
    """What may be a key: its cell judges it, and where it stands."""
    for name in _KEY_HEADERS:
        for value in exchange.header(name):
            if found := _KEY.match(value):
                return found[1].decode("ascii")
    return None


def _hops(exchange: Exchange) -> str:
    client = exchange.scope.get("client")
    hops = [value.decode("latin-1") for value in exchange.header(b"x-forwarded-for")]
    return ", ".join([*hops, *([client[0]] if client else [])])


def _passed(headers: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name not in _OF_A_HOP
    ]


def _returned(answer: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """With its length, where it has one; X-Trace-Id is the exchange's own to send."""
    dropped = (_OF_A_HOP - {b"content-length"}) | {b"x-trace-id"}
    return [(name.lower(), value) for name, value in answer.raw_headers if name.lower() not in dropped]
