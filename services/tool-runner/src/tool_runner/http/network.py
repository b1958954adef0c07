"""What went wrong on the way to a tool server."""

import ssl

import httpcore2

from net_guard import AddressRefused, Unresolved
from tool_runner.faults import ToolFault


def fault_of(error: BaseException) -> ToolFault:
    """What one of ERRORS means."""
    match error:
        case AddressRefused():
            return ToolFault("address", f"{error}; AGENTCHAT_MCP_ALLOW lists addresses of one's own")
        case httpcore2.ConnectError() if _is_of_tls(error):
            return ToolFault("certificate", _line(error))
        case Unresolved() | httpcore2.ConnectError() | httpcore2.ConnectTimeout():
            return ToolFault("unreachable", _line(error))
        case TimeoutError() | httpcore2.TimeoutException():
            return ToolFault("timeout", _line(error))
        case _:
            return ToolFault("broken", f"{type(error).__name__} {_line(error)}".strip())


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__  # the pool raises it "from None"
    return error is not None


def _line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
