"""The MCP client's many ways to fail, each put down to one Fault."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import anyio
import httpx2
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT

from contracts.text import cleaned
from tool_runner.faults import ToolFailed
from tool_runner.http.call_budget import CallBudget, budget_until
from tool_runner.redaction import redacted
from tool_runner.time_limit import TimeLimit

GRACE_SECONDS = 0.25
"""The client's own time-out comes first, because it notifies the server; this one ends what that does not."""

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
async def asking(limit: TimeLimit, secrets: Callable[[], Sequence[str]]) -> AsyncIterator[CallBudget]:
    """Ask a server within this block, until `limit`.

    Raises ToolFailed only, as `failure` makes it; `secrets` are called for then.
    """
    with budget_until(limit.until) as budget, limit.followed(budget.defer):
        try:
            async with limit.enforced(GRACE_SECONDS):
                yield budget
        except ERRORS as error:
            raise failure(budget, error, secrets()) from error


def failure(budget: CallBudget, error: Exception, secrets: Sequence[str]) -> ToolFailed:
    """Why `error` was raised: what the transport has seen, else what the client says.

    `secrets`, which the server was sent, are in none of it, whatever the server answered.
    """
    fault = _failure(budget, error).fault
    detail, explanation = redacted(fault.detail, secrets), redacted(fault.explanation, secrets)
    return ToolFailed(fault.kind, detail[:_DETAIL_CHARS], explanation[:_EXPLANATION_CHARS])


def _failure(budget: CallBudget, error: Exception) -> ToolFailed:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    fault = budget.fault
    if fault is not None and not (fault.kind == "status" and _explains(error)):
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


def _explains(error: Exception) -> bool:
    return isinstance(error, MCPError) and error.message not in _STAND_INS
