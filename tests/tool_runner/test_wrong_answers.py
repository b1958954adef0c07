"""docs/change/reliability.md Tools: whatever a tool server does, its call ends in time and alone."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable

import pytest

from agentchat.tool_runner.calls.call_output import MAX_BYTES, render_result
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


def replies(
    status: int, body: bytes = b"", content_type: str = "application/json", **headers: str
) -> Answering:
    return lambda call: call.reply(status, body, content_type, **headers)


def result_in(
    change: Callable[[bytes], bytes], content_type: str = "application/json", **headers: str
) -> Answering:
    """The right result, with something changed."""
    return lambda call: call.reply(200, change(_answer(call, "x")), content_type, **headers)


def without_end(begin: bytes, piece: bytes, pause: float = 0.0) -> Answering:
    async def answer(call: Call) -> None:
        await call.send_raw(begin)
        while True:
            await call.send_raw(piece)
            await asyncio.sleep(pause)

    return answer


def breaks_off(data: bytes = b"") -> Answering:
    async def answer(call: Call) -> None:
        await call.send_raw(data)
        call.writer.transport.abort()

    return answer


async def _hang(_call: Call) -> None:
    await asyncio.sleep(60)


def _huge(call: Call) -> Awaitable[None]:
    return call.reply(200, _answer(call, "x" * (3 * MIB)))


DEEP = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
MANY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[' + b"{}," * 600_000 + b"{}]}}"
ASKS_A_PERSON = {"resultType": "input_required", "inputRequests": {}, "requestState": "x"}
CASES: dict[str, tuple[Answering, set[FaultKind]]] = {
    "hangs": (_hang, {"timeout"}),
    "drips events": (without_end(EVENTS, b": still here\n\n", 0.05), {"timeout"}),
    "drips JSON": (without_end(JSON + b"Content-Length: 100000\r\n\r\n", b" ", 0.05), {"timeout"}),
    "drips headers": (without_end(OK, b"X-Slow: 1\r\n", 0.05), {"timeout", "broken"}),
    "endless headers": (without_end(OK, b"X-Much: " + b"x" * 8192 + b"\r\n"), {"broken"}),
    "wrong id": (replies(200, b'{"jsonrpc":"2.0","id":999999,"result":{"content":[]}}'), {"protocol"}),
    "huge": (_huge, {"oversized"}),
    "huge, unannounced": (without_end(JSON + b"Connection: close\r\n\r\n", b" " * 65536), {"oversized"}),
    "huge in events": (
        without_end(EVENTS, b"event: message\ndata: " + NOTE % (b"x" * 50_000) + b"\n\n"),
        {"oversized"},
    ),
    "one endless event": (without_end(EVENTS + b"event: message\ndata: ", b"x" * 65536), {"oversized"}),
    "gzip bomb": (replies(200, GZIP_BOMB, Content_Encoding="gzip"), {"protocol"}),
    "nested brackets": (replies(200, DEEP), {"protocol"}),
    "many objects": (replies(200, MANY), {"oversized"}),
    "an encoding that nobody accepts": (result_in(bytes, Content_Encoding="br"), {"protocol"}),
    "no JSON": (replies(200, b'{"jsonrpc": "2.0", "id": 1, "result": {'), {"protocol"}),
    "HTML": (replies(200, b"<html>10.0.0.7 is down</html>", "text/html"), {"protocol"}),
    "odd charset": (result_in(bytes, "text/event-stream; charset=punycode"), {"protocol", "broken"}),
    "no result": (lambda call: call.send_result({"content": 5}), {"protocol"}),
    "invalid UTF-8": (result_in(lambda data: data.replace(b'"x"', b'"\xff\xfe"')), {"protocol"}),
    "202": (replies(202), {"protocol"}),
    "empty": (replies(200), {"protocol"}),
    "503": (replies(503, b"Traceback (most recent call last): 10.0.0.7", "text/plain"), {"status"}),
    "401": (replies(401, b"{}", WWW_Authenticate="Bearer"), {"credentials"}),
    "breaks off at once": (breaks_off(), {"broken"}),
    "breaks off in the body": (breaks_off(JSON + b"Content-Length: 1000\r\n\r\n{"), {"broken"}),
    "breaks off in an event": (breaks_off(EVENTS + b'event: message\ndata: {"jsonrpc"'), {"broken"}),
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


async def test_an_answer_under_2_mib_is_read_and_cut(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        await call.reply(200, _answer(call, "x" * (2 * MIB - 1000)))

    async with serve_script(on_call, TOOLS) as scripted:
        output = render_result(await call(connect(scripted), "bad"))
    assert MAX_BYTES - 1000 < len(output) <= MAX_BYTES
    assert json.loads(output)["notice"].startswith(f"The output had {2 * MIB - 1000} bytes")


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


async def test_a_server_that_hangs_on_everything_holds_up_nobody(connect: Connect) -> None:
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


async def test_the_servers_own_words_about_a_refused_call_are_passed_on(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        await call.send_error(-32602, "order_id must look like ORD-1001", status=400)

    async with serve_script(on_call, TOOLS) as scripted:
        with pytest.raises(ToolFailed) as caught:
            await call(connect(scripted), "bad")
        assert caught.value.fault.words.endswith("It said: order_id must look like ORD-1001")
