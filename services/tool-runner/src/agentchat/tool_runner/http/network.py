"""Send requests to checked addresses only, read bounded bodies, and name what goes wrong with both.

A body is read within its call's budget of time and bytes, and without the credentials that its request had.
A compressed one, which no request asks for, is not read.
"""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import httpx2
from yarl import URL

from agentchat.net_guard import AddressRefused, Guard, Unresolved
from agentchat.net_guard.guarded_session import is_compressed, judge
from agentchat.runtime.fair_slots import KeySlots
from agentchat.tool_runner.faults import ToolFault
from agentchat.tool_runner.http.call_budget import CallBudget, TooLarge
from agentchat.tool_runner.redaction import Redactor

ERRORS = (AddressRefused, Unresolved, aiohttp.ClientError, OSError, ValueError)
"""What sending a request and reading its response can raise, TimeoutError among them."""


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
    """Read the bytes of a response.

    Whatever goes wrong is left in the budget and raised as httpx2.StreamError, the one failure of a body
    that the MCP client takes as this call's own.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        budget: CallBudget,
        large: KeySlots,
        redactor: Redactor,
    ) -> None:
        self._response = response
        self._budget = budget
        self._large = large
        self._redactor = redactor

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if is_compressed(self._response):
            raise self._failed(ToolFault("protocol", "compressed, which was not requested"))
        chunks = aiter(self._response.content.iter_any())
        try:
            while (chunk := await self._next(chunks)) is not None:
                await self._budget.take(chunk, self._large)
                yield self._redactor.strike(chunk)
            yield self._redactor.rest
        except TooLarge as error:
            raise self._failed(ToolFault("oversized")) from error
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
