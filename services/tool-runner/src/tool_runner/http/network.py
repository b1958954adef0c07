"""Requests on a session that connects to judged addresses alone, the bodies of answers, and what goes wrong
with both as faults.

A body is read within its call's budget of time and bytes, decompressed in small steps, and rid of what would
make its JSON unreadable.
"""

import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import httpx2
from yarl import URL

from net_guard import AddressRefused, Guard, Unresolved
from net_guard.guarded_session import judge
from runtime.fair_slots import KeySlots
from tool_runner.faults import ToolFault
from tool_runner.http.call_budget import CallBudget, TooLarge

ERRORS = (AddressRefused, Unresolved, aiohttp.ClientError, OSError, ValueError)
"""What sending a request and reading its answer can raise, TimeoutError among them."""

_STEP = 64 * 1024


async def send(
    session: aiohttp.ClientSession, guard: Guard, request: httpx2.Request
) -> aiohttp.ClientResponse:
    """Send a request of the MCP client or of ours; the answer as soon as its head is here. Raises ERRORS."""
    try:
        url = URL(str(request.url), encoded=True)
    except ValueError as error:
        raise AddressRefused("no address") from error
    judge(guard, url)
    return await session.request(
        request.method,
        url,
        headers=request.headers.multi_items(),
        data=request.content or None,
        allow_redirects=False,
    )


def fault_of(error: BaseException) -> ToolFault:
    """What one of ERRORS means. The addresses that a name has are in no fault: clients are shown it."""
    match error:
        case AddressRefused():
            return ToolFault("address", f"{error}; AGENTCHAT_MCP_ALLOW lists addresses of one's own")
        case aiohttp.ClientSSLError():
            return ToolFault("certificate", _line(error.__cause__ or error))
        case Unresolved():
            return ToolFault("unreachable", _line(error))
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return ToolFault("unreachable", "no connection")
        case TimeoutError():
            return ToolFault("timeout", _line(error))
        case _:
            return ToolFault("broken", type(error).__name__)


def _line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


class BoundedBody(httpx2.AsyncByteStream):
    """The decoded bytes of a response.

    Whatever goes wrong is left in the budget and raised as httpx2.StreamError, the one failure of a body
    that the MCP client takes as this call's own.
    """

    def __init__(
        self, answer: aiohttp.ClientResponse, budget: CallBudget, large: KeySlots, encoding: str
    ) -> None:
        self._answer = answer
        self._budget = budget
        self._large = large
        self._decode = _decoder(encoding)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._answer.content.iter_any())
        surrogates = LoneSurrogates()
        try:
            while (chunk := await self._next(chunks)) is not None:
                for piece in self._decode(chunk):
                    await self._budget.take(piece, self._large)
                    yield surrogates.replaced(piece)
            yield surrogates.rest
        except TooLarge as error:
            raise self._failed(ToolFault("oversized")) from error
        except zlib.error as error:
            raise self._failed(ToolFault("protocol", "not decodable")) from error
        except ERRORS as error:
            raise self._failed(fault_of(error)) from error

    async def aclose(self) -> None:
        self._answer.release()

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        async with self._budget.reading():
            return await anext(chunks, None)

    def _failed(self, fault: ToolFault) -> httpx2.StreamError:
        self._budget.fail(fault)
        return httpx2.StreamError(fault.kind)


class _Inflate:
    """gzip or zlib, never more than a step at a time: a bomb is counted before it is unpacked."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        more = True
        while more:
            piece = self._stream.decompress(chunk, _STEP)
            chunk = self._stream.unconsumed_tail
            more = bool(chunk) or len(piece) == _STEP
            if piece:
                yield piece


def _as_it_is(chunk: bytes) -> Iterator[bytes]:
    yield chunk


def _refuse(_chunk: bytes) -> Iterator[bytes]:
    raise zlib.error("an encoding that was not requested")


def _decoder(encoding: str) -> Callable[[bytes], Iterator[bytes]]:
    match encoding.strip().lower():
        case "" | "identity":
            return _as_it_is
        case "gzip" | "x-gzip" | "deflate":
            return _Inflate()
        case _:
            return _refuse


_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_UNFINISHED = rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z"
_ESCAPE = re.compile(rb"(?s:(?P<unfinished>%b)|%b|(?P<lone>%b)|\\.)" % (_UNFINISHED, _PAIR, _LONE))


class LoneSurrogates:
    """Replaces lone surrogates in a JSON document that comes in pieces; an escape may be cut between two.

    The MCP client's parser refuses a complete document for one such escape. They become \\u0000, which no
    text may hold either: a tool of such a name is left out by itself, and in all other text U+FFFD takes
    its place (`contracts.text.cleaned`).
    """

    def __init__(self) -> None:
        self._held = b""

    def replaced(self, piece: bytes) -> bytes:
        """The document as far as it is decided; the rest comes with the next piece, or as `rest`."""
        if not self._held and b"\\u" not in piece and not piece.endswith(b"\\"):
            return piece
        piece, self._held = self._held + piece, b""
        return _ESCAPE.sub(self._judged, piece)

    @property
    def rest(self) -> bytes:
        """What an end within an escape has left over."""
        return self._held

    def _judged(self, match: re.Match[bytes]) -> bytes:
        if match["unfinished"] is not None:
            self._held = match[0]
            return b""
        return rb"\u0000" if match["lone"] is not None else match[0]
