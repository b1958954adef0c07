"""`/api/mcp`: GET gives the information object, POST takes JSON-RPC and hands it to the SDK.

The SDK speaks MCP. This layer stands before it for what it leaves open or answers otherwise: Host and Origin
on every method, JSON-RPC's own error codes for malformed messages, batches of the protocol versions that
have them, a missing Accept header, and clients that take an event stream only.
"""

import asyncio
from typing import Any

import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mcp_demo.asgi import Capture, Receive, Scope, Send, read_body, replay, values, with_headers
from mcp_demo.hosts import Hosts
from mcp_demo.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Fault, fault_of, is_response, parse
from runtime import logs

MAX_BODY_BYTES = 1024 * 1024
MAX_BATCH = 50
BODY_SECONDS = 10.0
CALL_SECONDS = 20.0

_BATCH_VERSIONS = (None, "2024-11-05", "2025-03-26")
"""Without the header 2025-03-26 is meant (MCP 2025-06-18, transports); 2025-06-18 removed batches."""

_JSON = b"application/json"
_STREAM = b"text/event-stream"


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer; without a body it has no content type."""

    status: int
    body: bytes = b""
    content_type: bytes = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Endpoint:
    """The ASGI application of the one path."""

    def __init__(self, manager: StreamableHTTPSessionManager, hosts: Hosts, information: bytes) -> None:
        self._manager = manager
        self._hosts = hosts
        self._information = information

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope, receive)
        headers = [(b"content-length", str(len(answer.body)).encode()), *answer.headers]
        if answer.body:
            headers.append((b"content-type", answer.content_type))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        refusal = self._hosts.refusal(values(scope, b"host"), values(scope, b"origin"))
        if refusal is not None:
            return _fault(refusal.status, INVALID_REQUEST, refusal.message)
        accepted = _accepted(scope)
        match scope["method"]:
            case "GET" | "HEAD" if _STREAM not in accepted:
                return Answer(200, self._information)
            case "POST":
                return await self._post(scope, receive, accepted)
            case _:
                # There is no stream to open and no session to end.
                fault = Fault(
                    INVALID_REQUEST, "Method not allowed: this server keeps no session and no stream"
                )
                return Answer(405, fault.encode(), headers=((b"allow", b"GET, HEAD, POST"),))

    async def _post(self, scope: Scope, receive: Receive, accepted: set[bytes]) -> Answer:
        if accepted.isdisjoint((_JSON, _STREAM, b"application/*", b"text/*", b"*/*")):
            return _fault(406, INVALID_REQUEST, "Not acceptable: answers are application/json")
        if _media_type(values(scope, b"content-type")) != _JSON:
            return _fault(415, INVALID_REQUEST, "Unsupported media type: send application/json")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await read_body(receive, MAX_BODY_BYTES)
        except TimeoutError:
            return _fault(408, INVALID_REQUEST, f"Request timeout: no whole body within {BODY_SECONDS:.0f} s")
        if body is None:
            return _fault(413, INVALID_REQUEST, f"Content too large: a body may have {MAX_BODY_BYTES} bytes")
        answer = await self._take(scope, receive, body)
        only_stream = accepted.isdisjoint((_JSON, b"application/*", b"*/*"))
        return _as_stream(answer) if only_stream and answer.status == 200 else answer

    async def _take(self, scope: Scope, receive: Receive, body: bytes) -> Answer:
        content = parse(body)
        if isinstance(content, Fault):
            return Answer(400, content.encode())
        if isinstance(content, list):
            return await self._take_batch(scope, receive, content)
        fault = fault_of(content)
        if fault is not None:
            return Answer(400, fault.encode())
        return await self._exchange(scope, receive, content)

    async def _take_batch(self, scope: Scope, receive: Receive, messages: list[Any]) -> Answer:
        """Answer each request of a batch, in its order, in one array; 202 if it holds none."""
        version = next(iter(values(scope, b"mcp-protocol-version")), None)
        if version not in _BATCH_VERSIONS:
            return _fault(400, INVALID_REQUEST, f"Invalid request: MCP {version[:32]} has no batches")
        if not 1 <= len(messages) <= MAX_BATCH:
            return _fault(400, INVALID_REQUEST, f"Invalid request: a batch has 1 to {MAX_BATCH} messages")
        answers = []
        for message in messages:
            fault = fault_of(message) or _alone(message)
            if fault is not None:
                answers.append(fault.encode())
            else:
                answers.append((await self._exchange(scope, receive, message)).body)
        told = [msgspec.Raw(answer) for answer in answers if answer]
        return Answer(200, msgspec.json.encode(told)) if told else Answer(202)

    async def _exchange(self, scope: Scope, receive: Receive, message: dict[str, Any]) -> Answer:
        """The SDK's answer to one message."""
        if is_response(message):
            return Answer(202)
        body = msgspec.json.encode(message)
        headers = {
            b"content-length": str(len(body)).encode(),
            b"content-type": _JSON,
            b"accept": _JSON + b", " + _STREAM,
        }
        captured = Capture()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._manager.handle_request(
                    with_headers(scope, headers), replay(body, receive), captured
                )
        except TimeoutError:
            logs.get_logger("endpoint").error("call_timed_out", method=message["method"])
            late = Fault(INTERNAL_ERROR, "Internal error: no answer in time", message.get("id"))
            return Answer(504, late.encode())
        return Answer(captured.status, bytes(captured.body))


def _alone(message: dict[str, Any]) -> Fault | None:
    if message.get("method") != "initialize":
        return None
    return Fault(
        INVALID_REQUEST, "Invalid request: initialize must not be part of a batch", message.get("id")
    )


def _media_type(values: list[str]) -> bytes:
    return ",".join(values).partition(";")[0].strip().lower().encode()


def _accepted(scope: Scope) -> set[bytes]:
    """The media types of the Accept header; a client that sends none takes anything (RFC 9110, 12.5.1)."""
    listed = ",".join(values(scope, b"accept")).split(",")
    return {_media_type([part]) for part in listed if part.strip()} or {b"*/*"}


def _as_stream(answer: Answer) -> Answer:
    event = b"event: message\r\ndata: " + answer.body + b"\r\n\r\n"
    return Answer(answer.status, event, _STREAM, ((b"cache-control", b"no-cache"),))


def _fault(status: int, code: int, message: str) -> Answer:
    return Answer(status, Fault(code, message).encode())
