"""Rewrite a server's JSON-RPC messages so that the SDK passes on everything that it says, but no credentials.

The SDK reports its own failures (closed, timed out, not parsable) with JSON-RPC codes that servers use too,
waits for a response whose id is null, and rejects a complete result for one content block that it does not
know.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import mcp_types
import msgspec
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT
from pydantic import TypeAdapter, ValidationError

from agentchat.tool_runner.credential_redaction import CredentialRedactor

SHIFT = 1_000_000
"""A server's error code that the SDK uses too is this much lower in the SDK's hands."""

FOREIGN = "agentchat/foreign"
"""The `_meta` key of a text block that stands for a block of a foreign type, with that type."""

_SDK_CODES = frozenset({CONNECTION_CLOSED, REQUEST_TIMEOUT, PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR})
_BLOCK: TypeAdapter[mcp_types.ContentBlock] = TypeAdapter(mcp_types.ContentBlock)


class SentMessage(msgspec.Struct):
    """The fields of an outgoing message that the transport needs; a reply to the server has no method."""

    method: str = ""
    id: int | str | None = None


def is_from_server(code: int) -> bool:
    """Return True if an MCPError with this code is the server's own and not the SDK's."""
    return code not in _SDK_CODES


def get_server_code(code: int) -> int:
    """Return the code that the server sent."""
    return code + SHIFT if code + SHIFT in _SDK_CODES else code


def repair_message(body: bytes, sent: SentMessage) -> bytes:
    """Return the response to `sent` in a form that the SDK understands; other bytes unchanged."""
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body
    if not isinstance(message, dict) or "method" in message or not message.keys() & {"result", "error"}:
        return body
    error, result = message.get("error"), message.get("result")
    repaired = dict(message)
    if sent.id is not None:
        if error is None and message.get("id") is not None and str(message["id"]) != str(sent.id):
            return b""  # the result of another call: not waited for, and not taken for this one's
        repaired["id"] = sent.id
    if isinstance(error, dict) and error.get("code") in _SDK_CODES:
        repaired["error"] = error | {"code": error["code"] - SHIFT}
    if isinstance(result, dict) and sent.method == "tools/call":
        repaired["result"] = _repair_result(result)
    return body if repaired == message else msgspec.json.encode(repaired)


def _repair_result(result: dict[str, Any]) -> dict[str, Any]:
    match result.get("content"):
        case list(blocks):
            return result | {"content": [_repair_block(block) for block in blocks]}
        case str(text):
            return result | {"content": [{"type": "text", "text": text}]}
        case None if "structuredContent" in result:
            return result | {"content": []}
    return result


def _repair_block(block: Any) -> Any:
    try:
        _BLOCK.validate_python(block, by_name=False)
    except ValidationError:
        kind = block.get("type") if isinstance(block, dict) else None
        return {"type": "text", "text": "", "_meta": {FOREIGN: kind if isinstance(kind, str) else "unknown"}}
    return block


class RepairedBody(httpx2.AsyncByteStream):
    """The body of a response, JSON or an event stream, with its messages repaired and redacted."""

    def __init__(
        self,
        body: httpx2.AsyncByteStream,
        media_type: str,
        sent: SentMessage,
        redactor: CredentialRedactor,
        limit: int,
    ) -> None:
        self._body = body
        self._media_type = media_type
        self._sent = sent
        self._redactor = redactor
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._media_type != "text/event-stream":
            body = b"".join([chunk async for chunk in self._body])
            yield repair_message(self._redactor.strike(body), self._sent)
            return
        request = httpx2.Request("POST", "http://server")
        headers = {"content-type": self._media_type}
        response = httpx2.Response(200, headers=headers, stream=self._body, request=request)
        async for event in httpx2.EventSource(response, max_event_size=self._limit):
            yield self._encode_event(event)

    async def aclose(self) -> None:
        """Release the connection."""
        await self._body.aclose()

    def _encode_event(self, event: httpx2.ServerSentEvent) -> bytes:
        fields = [("event", event.event), ("id", event.id), ("retry", event.retry)]
        lines = [f"{name}: {value}" for name, value in fields if value not in ("", None)]
        data = repair_message(self._redactor.strike(event.data.encode()), self._sent) if event.data else b""
        lines += [f"data: {line}" for line in data.decode().split("\n")]
        return "\n".join([*lines, "", ""]).encode()
