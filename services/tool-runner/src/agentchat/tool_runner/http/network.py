"""Send requests to permitted addresses, read bodies within a budget, and classify errors.

A compressed body, which no request asks for, is not read.
"""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import httpx2
from yarl import URL

from agentchat.net_guard import AddressRefused, Guard, Unresolved
from agentchat.net_guard.guarded_session import check_request, is_compressed
from agentchat.runtime.fair_slots import KeySlots
from agentchat.tool_runner.faults import ToolFault
from agentchat.tool_runner.http.call_budget import CallBudget, TooLarge

ERRORS = (AddressRefused, Unresolved, aiohttp.ClientError, OSError, ValueError)
"""The errors of sending a request and reading its response; OSError includes TimeoutError."""


async def send(
    session: aiohttp.ClientSession, guard: Guard, request: httpx2.Request
) -> aiohttp.ClientResponse:
    """Send a request and return once the head of the response has arrived. Raises ERRORS."""
    try:
        url = URL(str(request.url), encoded=True)
    except ValueError as error:
        raise AddressRefused("no address") from error
    check_request(guard, url)
    return await session.request(
        request.method,
        url,
        headers=request.headers.multi_items(),
        data=request.content or None,
        allow_redirects=False,
    )


def classify_error(error: BaseException) -> ToolFault:
    """Return the fault for one of ERRORS.

    Clients see it, so it never says what a name resolves to.
    """
    match error:
        case AddressRefused():
            return ToolFault("address", f"{error}; AGENTCHAT_MCP_ALLOW lists addresses of one's own")
        case aiohttp.ClientSSLError():
            return ToolFault("certificate", _get_first_line(error.__cause__ or error))
        case Unresolved():
            return ToolFault("unreachable", _get_first_line(error))
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return ToolFault("unreachable", "no connection")
        case TimeoutError():
            return ToolFault("timeout", _get_first_line(error))
        case _:
            return ToolFault("broken", type(error).__name__)


def _get_first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


class BoundedBody(httpx2.AsyncByteStream):
    """The body of a response, read within a budget.

    Every failure is recorded in the budget and raised as httpx2.StreamError, the only exception that the MCP
    client treats as a failure of only this call.
    """

    def __init__(self, response: aiohttp.ClientResponse, budget: CallBudget, large: KeySlots) -> None:
        self._response = response
        self._budget = budget
        self._large = large

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if is_compressed(self._response):
            raise self._fail(ToolFault("protocol", "compressed, which was not requested"))
        chunks = aiter(self._response.content.iter_any())
        try:
            while (chunk := await self._read_chunk(chunks)) is not None:
                await self._budget.take(chunk, self._large)
                yield chunk
        except TooLarge as error:
            raise self._fail(ToolFault("oversized")) from error
        except ERRORS as error:
            raise self._fail(classify_error(error)) from error

    async def aclose(self) -> None:
        """Release the connection."""
        self._response.release()

    async def _read_chunk(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        async with asyncio.timeout_at(self._budget.deadline):
            return await anext(chunks, None)

    def _fail(self, fault: ToolFault) -> httpx2.StreamError:
        self._budget.fail(fault)
        return httpx2.StreamError(fault.kind)
