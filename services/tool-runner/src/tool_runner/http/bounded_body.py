"""A response's body, read under its exchange's deadline and byte count, decompressed in small steps, and rid
of what would make its JSON unreadable.
"""

import zlib
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import httpx2

from runtime.fair_slots import KeySlots
from tool_runner.faults import ToolFault
from tool_runner.http.call_budget import CallBudget, TooLarge
from tool_runner.http.network import ERRORS, fault_of
from tool_runner.http.surrogates import LoneSurrogates

_STEP = 64 * 1024


class BoundedBody(httpx2.AsyncByteStream):
    """The decoded bytes of a response.

    Whatever goes wrong is left in the exchange and raised as httpx2.StreamError, the one failure of a body
    that the MCP client takes as this call's own.
    """

    def __init__(
        self, answer: aiohttp.ClientResponse, exchange: CallBudget, large: KeySlots, encoding: str
    ) -> None:
        self._answer = answer
        self._exchange = exchange
        self._large = large
        self._decode = _decoder(encoding)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._answer.content.iter_any())
        surrogates = LoneSurrogates()
        try:
            while (chunk := await self._next(chunks)) is not None:
                for piece in self._decode(chunk):
                    await self._exchange.take(piece, self._large)
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
        async with self._exchange.reading():
            return await anext(chunks, None)

    def _failed(self, fault: ToolFault) -> httpx2.StreamError:
        self._exchange.fail(fault)
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
    raise zlib.error("an encoding that was not asked for")


def _decoder(encoding: str) -> Callable[[bytes], Iterator[bytes]]:
    match encoding.strip().lower():
        case "" | "identity":
            return _as_it_is
        case "gzip" | "x-gzip" | "deflate":
            return _Inflate()
        case _:
            return _refuse
