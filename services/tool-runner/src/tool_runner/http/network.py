"""Send requests to checked addresses only, read bounded bodies, and name what goes wrong with both.

A body is read within its call's budget of time and bytes, decompressed in small steps, and without the
credentials that its request had.
"""

import asyncio
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
from tool_runner.redaction import Redactor

ERRORS = (AddressRefused, Unresolved, aiohttp.ClientError, OSError, ValueError)
"""What sending a request and reading its response can raise, TimeoutError among them."""

_STEP = 64 * 1024


async def send(
    session: aiohttp.ClientSession, guard: Guard, request: httpx2.Request
) -> aiohttp.ClientResponse:
    """Send a request and return when the head of its response is here. Raises ERRORS."""
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
    """Return the fault for one of ERRORS. No fault has the addresses of a name: clients see it."""
    match error:
        case AddressRefused():
            return ToolFault("address", f"{error}; AGENTCHAT_MCP_ALLOW lists addresses of one's own")
        case aiohttp.ClientSSLError():
            return ToolFault("certificate", _first_line(error.__cause__ or error))
        case Unresolved():
            return ToolFault("unreachable", _first_line(error))
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return ToolFault("unreachable", "no connection")
        case TimeoutError():
            return ToolFault("timeout", _first_line(error))
        case _:
            return ToolFault("broken", type(error).__name__)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


class BoundedBody(httpx2.AsyncByteStream):
    """Read the decoded bytes of a response.

    Whatever goes wrong is left in the budget and raised as httpx2.StreamError, the one failure of a body
    that the MCP client takes as this call's own.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        budget: CallBudget,
        large: KeySlots,
        *,
        encoding: str,
        redactor: Redactor,
    ) -> None:
        self._response = response
        self._budget = budget
        self._large = large
        self._decode = _decoder(encoding)
        self._redactor = redactor

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._response.content.iter_any())
        try:
            while (chunk := await self._next(chunks)) is not None:
                for piece in self._decode(chunk):
                    await self._budget.take(piece, self._large)
                    yield self._redactor.strike(piece)
            yield self._redactor.rest
        except TooLarge as error:
            raise self._failed(ToolFault("oversized")) from error
        except zlib.error as error:
            raise self._failed(ToolFault("protocol", "not decodable")) from error
        except ERRORS as error:
            raise self._failed(fault_of(error)) from error

    async def aclose(self) -> None:
        self._response.release()

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        async with asyncio.timeout_at(self._budget.deadline):
            return await anext(chunks, None)

    def _failed(self, fault: ToolFault) -> httpx2.StreamError:
        self._budget.fail(fault)
        return httpx2.StreamError(fault.kind)


class _Inflate:
    """Decompress gzip or zlib a step at a time: a bomb is counted before it is unpacked."""

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


def _keep(chunk: bytes) -> Iterator[bytes]:
    yield chunk


def _refuse(_chunk: bytes) -> Iterator[bytes]:
    raise zlib.error("an encoding that was not requested")


def _decoder(encoding: str) -> Callable[[bytes], Iterator[bytes]]:
    match encoding.strip().lower():
        case "" | "identity":
            return _keep
        case "gzip" | "x-gzip" | "deflate":
            return _Inflate()
        case _:
            return _refuse
