"""Requests on a session that connects to judged addresses alone, and what goes wrong with them as faults."""

import aiohttp
import httpx2
from yarl import URL

from net_guard import AddressRefused, Guard, Unresolved
from net_guard.guarded_session import judge
from tool_runner.faults import ToolFault

ERRORS = (AddressRefused, Unresolved, aiohttp.ClientError, OSError, ValueError)
"""What sending a request and reading its answer can raise, TimeoutError among them."""


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
