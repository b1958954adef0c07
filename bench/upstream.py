"""A provider that costs next to nothing: Anthropic's Messages wire, streamed from prepared bytes.

`python -m bench.upstream` prints its port. The model's name says what comes, as
`lean?deltas=500&delay_ms=10`: `deltas` numbered ones (20), each `delay_ms` after the one before (0: all in
one write), after one call of the tool whose name ends with `tool`, if the request has no tool result yet.
The rest of a request is ignored.
"""

import asyncio
import functools
import re
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
import uvloop

DELTA = re.compile(rb"(\d{6})[ .]")
"""The text of a delta is its number; model-demo's too."""
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_MODEL = re.compile(rb'"model": ?"([^"]*)"')
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_lean\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_LAST = b"0\r\n\r\n"


class Plan(msgspec.Struct, frozen=True):
    """A reply to stream: its deltas, their delay in seconds, a tool to call."""

    deltas: int
    delay: float
    tool: str


@functools.cache
def plan_of(model: bytes) -> Plan:
    """Read what a model's name asks for. Raises ValueError."""
    given = dict(parse_qsl(model.decode().partition("?")[2]))
    return Plan(int(given.get("deltas", 20)), int(given.get("delay_ms", 0)) / 1000, given.get("tool", ""))


def _build_event(kind: str, **fields: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))


def _build_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _build_opening(block: dict[str, Any]) -> bytes:
    message: dict[str, Any] = {"id": "msg_lean", "type": "message", "role": "assistant", "model": "lean"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None}
    message |= {"usage": {"input_tokens": 20, "output_tokens": 1}}
    started = _build_event("message_start", message=message)
    return started + _build_event("content_block_start", index=0, content_block=block) + _build_event("ping")


def _build_ending(reason: str) -> bytes:
    delta, usage = {"stop_reason": reason, "stop_sequence": None}, {"output_tokens": 40}
    stopped = _build_event("content_block_stop", index=0)
    return stopped + _build_event("message_delta", delta=delta, usage=usage) + _build_event("message_stop")


@functools.cache
def _build_delta(number: int) -> bytes:
    return _build_event(
        "content_block_delta", index=0, delta={"type": "text_delta", "text": f"{number:06d} "}
    )


_OPENING = _build_opening({"type": "text", "text": ""})
_CLOSING = _build_chunk(_build_ending("end_turn")) + _LAST


@functools.cache
def _build_reply(deltas: int) -> bytes:
    return _HEAD + _build_chunk(_OPENING + b"".join(map(_build_delta, range(deltas)))) + _CLOSING


@functools.cache
def _build_tool_call(name: bytes) -> bytes:
    block = {"type": "tool_use", "id": "toolu_lean", "name": name.decode(), "input": {}}
    piece = {"type": "input_json_delta", "partial_json": '{"product_id":"PRD-124"}'}
    called = _build_event("content_block_delta", index=0, delta=piece)
    return _HEAD + _build_chunk(_build_opening(block) + called + _build_ending("tool_use")) + _LAST


class Answering(asyncio.Protocol):
    """One connection: a request at a time, kept open after it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._received = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (asyncio.Protocol)."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of asyncio.Protocol
        """Note that the connection was closed (asyncio.Protocol)."""
        if self._timer:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Process received bytes (asyncio.Protocol)."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        length = LENGTH.search(self._received, 0, end) if end >= 0 else None
        if end >= 0 and len(self._received) >= end + 4 + (int(length[1]) if length else 0):
            request = bytes(self._received)
            self._received.clear()
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        named = _MODEL.search(request)
        plan = plan_of(named[1] if named else b"")
        if plan.tool and b'"tool_result"' not in request:
            tool = re.search(rb'"name": ?"([^"]*%s)"' % plan.tool.encode(), request)
            assert tool is not None, "the agent has the tool that its model is to call"
            self._transport.write(_build_tool_call(tool[1]))
        elif plan.delay:
            self._transport.write(_HEAD + _build_chunk(_OPENING))
            self._send_due(plan, 0, self._loop.time())
        else:
            self._transport.write(_build_reply(plan.deltas))

    def _send_due(self, plan: Plan, number: int, began: float) -> None:
        """Send the delta that is due, and those that a late timer owes, by a schedule that does not drift."""
        due = min(plan.deltas, 1 + int((self._loop.time() - began) / plan.delay + 0.01))
        following = max(due, number + 1)
        self._transport.write(_build_chunk(b"".join(map(_build_delta, range(number, following)))))
        if following < plan.deltas:
            at = began + following * plan.delay
            self._timer = self._loop.call_at(at, self._send_due, plan, following, began)
        else:
            self._transport.write(_CLOSING)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(loop), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - to the process that started it
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
