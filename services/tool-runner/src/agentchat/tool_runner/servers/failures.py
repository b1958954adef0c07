"""The MCP client's many ways to fail, each reduced to one ToolFault."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import anyio
import httpx2
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT

from agentchat.contracts.text import cleaned
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.http.call_budget import CallBudget, budget_until

GRACE_SECONDS = 0.25
"""The client's own time-out comes first, because it notifies the server; ours ends what that does not."""

_EXPLANATION_CHARS = 1000
_DETAIL_CHARS = 200
# What the client says in the server's stead when an HTTP error explains nothing.
_STAND_INS = frozenset({"Server returned an error response", "Not Found", "Session terminated"})
ERRORS = (
    MCPError,
    ExceptionGroup,
    httpx2.HTTPError,
    httpx2.StreamError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,  # TimeoutError among them
    ValueError,  # pydantic's ValidationError among them: not what the protocol says
    RuntimeError,
    MemoryError,
)


@contextlib.asynccontextmanager
async def requests_until(deadline: float) -> AsyncIterator[CallBudget]:
    """Send requests to a server within this block, until `deadline`. Raises ToolFailed only."""
    with budget_until(deadline) as budget:
        try:
            async with asyncio.timeout_at(deadline + GRACE_SECONDS):
                yield budget
        except ERRORS as error:
            raise explain(budget, error) from error


def explain(budget: CallBudget, error: Exception) -> ToolFailed:
    """Return why `error` was raised: what the transport has seen, else what the client says."""
    fault = _explain(budget, error).fault
    return ToolFailed(fault.kind, fault.detail[:_DETAIL_CHARS], fault.explanation[:_EXPLANATION_CHARS])


def _explain(budget: CallBudget, error: Exception) -> ToolFailed:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    fault = budget.fault
    if fault is not None and not (fault.kind == "status" and _says_more(error)):
        return ToolFailed(fault.kind, fault.detail)
    match error:
        case ToolFailed():
            return error
        case MCPError(code=code) if code == REQUEST_TIMEOUT:
            return ToolFailed("timeout")
        case MCPError(code=code) if code == CONNECTION_CLOSED:
            return ToolFailed("broken", error.message)
        case MCPError(code=code) if code == PARSE_ERROR:
            return ToolFailed("protocol", "not JSON-RPC")
        case MCPError(code=code):
            return ToolFailed("refused", f"error {code}", cleaned(error.message))
        case TimeoutError():
            return ToolFailed("timeout")
        case anyio.BrokenResourceError() | anyio.ClosedResourceError() | OSError():
            return ToolFailed("broken", type(error).__name__)
        case MemoryError():
            return ToolFailed("oversized", "out of memory")
        case _:
            return ToolFailed("protocol", type(error).__name__)


def _says_more(error: Exception) -> bool:
    return isinstance(error, MCPError) and error.message not in _STAND_INS
