"""docs/change/reliability.md Tools: whatever a tool server does, its call ends in time and alone."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable

import pytest

from agentchat.tool_runner.calls.call_output import render_result
from agentchat.tool_runner.faults import FaultKind, ToolFailed
from tests.tool_runner.conftest import Connect, call
from tests.tool_runner.scripted import Call, make_tool, serve_script

MIB = 1024 * 1024
GZIP_BOMB = gzip.compress(bytes(64 * MIB), 1)
TOOLS = [make_tool("good", readOnlyHint=True), make_tool("bad"), make_tool("safe", idempotentHint=True)]


def _answer(call: Call, text: str) -> bytes:
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    return json.dumps({"jsonrpc": "2.0", "id": call.message["id"], "result": result}).encode()


Answering = Callable[[Call], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"Content-Type: application/json\r\n"
EVENTS = OK + b"Content-Type: text/event-stream\r\nConnection: close\r\n\r\n"
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'


def build_reply(
    status: int, body: bytes = b"", content_type: str = "application/json", **headers: str
) -> Answering:
    return lambda call: call.reply(status, body, content_type, **headers)


def build_changed_result(
    change: Callable[[bytes], bytes], content_type: str = "application/json", **headers: str
) -> Answering:
    """Build the right result, with something changed."""
    return lambda call: call.reply(200, change(_answer(call, "x")), content_type, **headers)


def stream_endlessly(begin: bytes, piece: bytes, pause: float = 0.0) -> Answering:
    async def answer(call: Call) -> None:
        await call.send_raw(begin)
        while True:
            await call.send_raw(piece)
            await asyncio.sleep(pause)

    return answer


def break_off(data: bytes = b"") -> Answering:
    async def answer(call: Call) -> None:
        await call.send_raw(data)
        call.writer.transport.abort()

    return answer


async def _hang(_call: Call) -> None:
    await asyncio.sleep(60)


def _send_huge(call: Call) -> Awaitable[None]:
    return call.reply(200, _answer(call, "x" * (3 * MIB)))


DEEP = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
MANY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[' + b"{}," * 600_000 + b"{}]}}"
ASKS_A_PERSON = {"resultType": "input_required", "inputRequests": {}, "requestState": "x"}
CASES: dict[str, tuple[Answering, set[FaultKind]]] = {
    "hangs": (_hang, {"timeout"}),
    "drips events": (stream_endlessly(EVENTS, b": still here\n\n", 0.05), {"timeout"}),
    "drips JSON": (stream_endlessly(JSON + b"Content-Length: 100000\r\n\r\n", b" ", 0.05), {"timeout"}),
    "drips headers": (stream_endlessly(OK, b"X-Slow: 1\r\n", 0.05), {"timeout", "broken"}),
    "endless headers": (stream_endlessly(OK, b"X-Much: " + b"x" * 8192 + b"\r\n"), {"broken"}),
    "wrong id": (build_reply(200, b'{"jsonrpc":"2.0","id":999999,"result":{"content":[]}}'), {"protocol"}),
    "huge": (_send_huge, {"oversized"}),
    "huge, unannounced": (stream_endlessly(JSON + b"Connection: close\r\n\r\n", b" " * 65536), {"oversized"}),
    "huge in events": (
        stream_endlessly(EVENTS, b"event: message\ndata: " + NOTE % (b"x" * 50_000) + b"\n\n"),
        {"oversized"},
    ),
    "one endless event": (stream_endlessly(EVENTS + b"event: message\ndata: ", b"x" * 65536), {"oversized"}),
    "gzip bomb": (build_reply(200, GZIP_BOMB, Content_Encoding="gzip"), {"protocol"}),
    "nested brackets": (build_reply(200, DEEP), {"protocol"}),
    "many objects": (build_reply(200, MANY), {"oversized"}),
    "an encoding that nobody accepts": (build_changed_result(bytes, Content_Encoding="br"), {"protocol"}),
    "no JSON": (build_reply(200, b'{"jsonrpc": "2.0", "id": 1, "result": {'), {"protocol"}),
    "HTML": (build_reply(200, b"<html>10.0.0.7 is down</html>", "text/html"), {"protocol"}),
    "odd charset": (
        build_changed_result(bytes, "text/event-stream; charset=punycode"),
        {"protocol", "broken"},
    ),
    "no result": (lambda call: call.send_result({"content": 5}), {"protocol"}),
    "invalid UTF-8": (build_changed_result(lambda data: data.replace(b'"x"', b'"\xff\xfe"')), {"protocol"}),
    "202": (build_reply(202), {"protocol"}),
    "empty": (build_reply(200), {"protocol"}),
    "503": (build_reply(503, b"Traceback (most recent call last): 10.0.0.7", "text/plain"), {"status"}),
    "401": (build_reply(401, b"{}", WWW_Authenticate="Bearer"), {"credentials"}),
    "breaks off at once": (break_off(), {"broken"}),
    "breaks off in the body": (break_off(JSON + b"Content-Length: 1000\r\n\r\n{"), {"broken"}),
    "breaks off in an event": (break_off(EVENTS + b'event: message\ndata: {"jsonrpc"'), {"broken"}),
    "no HTTP": (lambda call: call.send_raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), {"broken"}),
    "asks a person": (lambda call: call.send_result(ASKS_A_PERSON), {"input", "protocol"}),
}


@pytest.mark.parametrize(("wrong", "kinds"), CASES.values(), ids=CASES)
async def test_a_wrong_answer_ends_its_own_call_only(
    wrong: Answering, kinds: set[FaultKind], connect: Connect
) -> None:
    good_may_answer = asyncio.Event()

    async def on_call(call: Call) -> None:
        if call.tool == "bad":
            await wrong(call)
        else:
            await good_may_answer.wait()
            await call.send_text("fine")

    loop = asyncio.get_running_loop()
    async with serve_script(on_call, TOOLS) as scripted:
        server = connect(scripted)
        await server.get_tools()
        side_by_side = asyncio.create_task(call(server, "good"))
        await scripted.wait_for_request("tools/call")
        began = loop.time()
        with pytest.raises(ToolFailed) as caught:
            await call(server, "bad", seconds=1.0)
        assert loop.time() - began < 30
        fault = caught.value.fault
        assert fault.kind in kinds
        assert (
            len(scripted.list_calls()) - 1
            == len([seen for seen in scripted.list_calls() if seen.tool == "bad"])
            == 1
        )
        for leaked in ("10.0.0.7", "Traceback", "127.0.0.1", "Bearer"):
            assert leaked not in fault.words
        good_may_answer.set()
        assert render_result(await side_by_side) == '{"text":"fine"}'
        assert render_result(await call(server, "good")) == '{"text":"fine"}'
        assert len(scripted.list_calls("initialize")) == 1


async def test_cancelling_a_call_tells_the_server_and_leaves_the_session(connect: Connect) -> None:
    arrived = asyncio.Event()

    async def on_call(call: Call) -> None:
        if call.tool == "bad":
            arrived.set()
            await asyncio.sleep(60)
        await call.send_text("fine")

    async with serve_script(on_call, TOOLS) as scripted:
        server = connect(scripted)
        task = asyncio.create_task(call(server, "bad"))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert render_result(await call(server, "good")) == '{"text":"fine"}'
        await scripted.wait_for_request("notifications/cancelled")
        assert len(scripted.list_calls("initialize")) == 1


async def test_a_server_that_always_hangs_delays_no_other(connect: Connect) -> None:
    async def hang(call: Call) -> bool:
        if call.rpc == "notifications/cancelled" or call.tool == "bad":
            await asyncio.sleep(60)
        return False

    async def on_call(call: Call) -> None:
        await call.send_text("fine")

    loop = asyncio.get_running_loop()
    async with serve_script(on_call, TOOLS, on_any=hang) as scripted:
        server = connect(scripted)
        with pytest.raises(ToolFailed, match="timeout"):
            await call(server, "bad", seconds=0.2)
        began = loop.time()
        assert render_result(await call(server, "good")) == '{"text":"fine"}'
        assert loop.time() - began < 30


@pytest.mark.parametrize(("name", "sent"), [("bad", 1), ("good", 2), ("safe", 2)])
async def test_only_an_idempotent_call_is_retried_when_the_connection_broke(
    name: str, sent: int, connect: Connect
) -> None:
    async def on_call(call: Call) -> None:
        call.writer.transport.abort()

    async with serve_script(on_call, TOOLS) as scripted:
        with pytest.raises(ToolFailed, match="broken"):
            await call(connect(scripted), name)
        assert len(scripted.list_calls()) == sent
