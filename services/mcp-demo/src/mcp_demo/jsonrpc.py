"""JSON-RPC 2.0 envelopes: what a body holds, and the answer to one that does not do.

MCP narrows JSON-RPC: an id is a string or an integer and never null, and params are an object.
Sources: https://www.jsonrpc.org/specification, https://modelcontextprotocol.io/specification (base protocol).
"""

from typing import Any

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = str | int | None


class Fault(msgspec.Struct, frozen=True):
    """Why a message is refused; `id` is None where the message has none that can be used."""

    code: int
    message: str
    id: Id = None

    def encode(self) -> bytes:
        """The error response."""
        error = {"code": self.code, "message": self.message}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": self.id, "error": error})


def parse(body: bytes) -> Any:
    """The JSON value of a body, or the Fault that answers it."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return Fault(PARSE_ERROR, f"Parse error: {error}")


def fault_of(message: Any) -> Fault | None:
    """What keeps one message from being a request, a notification or a response; None if nothing does."""
    if not isinstance(message, dict):
        return Fault(INVALID_REQUEST, "Invalid request: a message is a JSON object")
    own = message.get("id")
    ident = own if isinstance(own, str | int) and not isinstance(own, bool) else None
    if message.get("jsonrpc") != "2.0":
        return Fault(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0"', ident)
    if "id" in message and ident is None:
        return Fault(INVALID_REQUEST, "Invalid request: id must be a string or an integer")
    if is_response(message):
        return None
    if not isinstance(message.get("method"), str):
        return Fault(INVALID_REQUEST, "Invalid request: method must be a string", ident)
    params = message.get("params", {})
    if isinstance(params, list):
        return Fault(INVALID_PARAMS, "Invalid params: MCP takes them by name, as an object", ident)
    if not isinstance(params, dict):
        return Fault(INVALID_REQUEST, "Invalid request: params must be an object", ident)
    return None


def is_response(message: dict[str, Any]) -> bool:
    """Whether it answers a request; this server sends none, so such a message is taken and dropped."""
    return "method" not in message and "id" in message and ("result" in message) != ("error" in message)
