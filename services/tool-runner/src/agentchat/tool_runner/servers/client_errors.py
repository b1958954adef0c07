"""Turn every error of the MCP client into one ToolFault."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import anyio
import httpx2
import msgspec
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT

from agentchat.contracts.text_checks import clean_json, clean_text
from agentchat.tool_runner.faults import ToolFailed, ToolFault
from agentchat.tool_runner.http.call_budget import CallBudget, open_budget
from agentchat.tool_runner.http.server_messages import get_server_code, is_from_server
from agentchat.tool_runner.http.session_loss import is_session_gone

GRACE_SECONDS = 0.25
"""Our time-out comes this much after the client's own, which also notifies the server."""

_EXPLANATION_CHARS = 1000
_DETAIL_CHARS = 200
_TRANSPORT_CODES = (CONNECTION_CLOSED, REQUEST_TIMEOUT, INVALID_REQUEST)  # servers use them for lost sessions
_STAND_INS = frozenset({"Not Found"})  # the client's message for a 404 without an explanation
ERRORS = (
    MCPError,
    ExceptionGroup,
    httpx2.HTTPError,
    httpx2.StreamError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,  # includes TimeoutError
    ValueError,  # includes pydantic's ValidationError: the message is not valid MCP
    RuntimeError,
    MemoryError,
)


@contextlib.asynccontextmanager
async def limit_requests(deadline: float) -> AsyncIterator[CallBudget]:
    """Limit the requests of this block to one budget and `deadline`. Raises ToolFailed only."""
    with open_budget(deadline) as budget:
        try:
            async with asyncio.timeout_at(deadline + GRACE_SECONDS):
                yield budget
        except ERRORS as error:
            raise explain(budget, error) from error


def explain(budget: CallBudget, error: Exception) -> ToolFailed:
    """Return the failure behind `error`.

    The transport's fault if there is one, else the client's error.
    """
    fault = _explain(budget, error).fault
    return ToolFailed(fault.kind, fault.detail[:_DETAIL_CHARS], fault.explanation[:_EXPLANATION_CHARS])


def _explain(budget: CallBudget, error: Exception) -> ToolFailed:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    fault = budget.fault
    if isinstance(error, MCPError) and is_from_server(error.code) and error.message not in _STAND_INS:
        return _explain_server_error(fault, error)
    if fault is not None:
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
        case MCPError():
            return _explain_server_error(None, error)
        case TimeoutError():
            return ToolFailed("timeout")
        case anyio.BrokenResourceError() | anyio.ClosedResourceError() | OSError():
            return ToolFailed("broken", type(error).__name__)
        case MemoryError():
            return ToolFailed("oversized", "out of memory")
        case _:
            return ToolFailed("protocol", type(error).__name__)


def _explain_server_error(fault: ToolFault | None, error: MCPError) -> ToolFailed:
    """Keep the server's own words, with the kind of what the transport has seen if that is more specific."""
    words = clean_text(error.message)
    if error.data is not None:
        words += f" {msgspec.json.encode(clean_json(error.data)).decode()}"
    code = get_server_code(error.code)
    detail = f"error {code}"
    if code in _TRANSPORT_CODES and is_session_gone(200, words.encode()):
        return ToolFailed("expired", detail, words)
    if fault is not None and fault.kind not in ("status", "protocol"):
        return ToolFailed(fault.kind, f"{fault.detail}, {detail}", words)
    return ToolFailed("refused", detail, words)
