"""The headers that an agent gives its tool servers: credentials and the like, none of the message itself.

What would be said by the client as well is refused, and not dropped without a word in every call.
"""

import re
from collections.abc import Mapping

from contracts.admin_errors import Invalid

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")  # RFC 9110, token
_VALUE = re.compile(r"[\x20-\x7e\t]*\Z")
_MESSAGE = frozenset(
    {"host", "expect", "user-agent", "accept", "accept-encoding"}
    | {"content-type", "content-length", "content-encoding"}
)
_HOP_BY_HOP = frozenset(  # RFC 9110, 7.6.1
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
    | {"proxy-connection", "proxy-authenticate", "proxy-authorization"}
)
_PROTOCOL = frozenset(  # MCP, Streamable HTTP
    {"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"}
)
_OURS = _MESSAGE | _HOP_BY_HOP | _PROTOCOL
_PARAMETER = "mcp-param-"


def check_headers(headers: Mapping[str, str], field: str) -> None:
    """Raises Invalid with the header's path below `field`."""
    seen: dict[str, str] = {}
    for name, value in headers.items():
        if not _NAME.match(name):
            raise Invalid(field, "has a name that is not a header's")
        if not is_value(value):
            raise Invalid(f"{field}.{name}", "holds characters that no header can carry")
        known = name.lower()
        if known in _OURS or known.startswith(_PARAMETER):
            raise Invalid(f"{field}.{name}", "is set by the service, or by the protocols beneath it")
        if known in seen:
            raise Invalid(f"{field}.{name}", f"is the same header as {seen[known]}")
        seen[known] = name


def is_value(text: str) -> bool:
    return _VALUE.match(text) is not None
