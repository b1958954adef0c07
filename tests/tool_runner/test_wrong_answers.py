"""docs/change/reliability.md Tools: whatever a tool server does, its call ends in time and alone."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable

import pytest

from tests.tool_runner.conftest import Connect, call
from tests.tool_runner.memory import peak_bytes
from tests.tool_runner.scripted import Call, serving, tool
from tool_runner.calls.call_output import MAX_BYTES, rendered
from tool_runner.faults import Kind, ToolFailed

pytestmark = pytest.mark.requirement("TOOLS-ERRORS", "TOOLS-GUARD")

MIB = 1024 * 1024
GZIP_BOMB = gzip.compress(bytes(64 * MIB), 1)
DEFLATE_BOMB = zlib.compress(bytes(64 * MIB), 1)
TOOLS = [tool("good", readOnlyHint=True), tool("bad"), tool("safe", idempotentHint=True)]


def _answer(call: Call, text: str) -> bytes:
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    return json.dumps({"jsonrpc": "2.0", "id": call.message["id"], "result": result}).encode()


async def _hang(_call: Call) -> None:
    await asyncio.sleep(60)


async def _drip(call: Call) -> None:
    await call.begin_events()
    while True:
        await call.raw(b": still here\n\n")
        await asyncio.sleep(0.05)


async def _drip_json(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while True:
        await call.raw(b" ")
        await asyncio.sleep(0.05)


async def _drip_headers(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.raw(b"X-Slow: 1\r\n")
        await asyncio.sleep(0.05)


async def _endless_headers(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.raw(b"X-Much: " + b"x" * 8192 + b"\r\n")


async def _wrong_id(call: Call) -> None:
    call.message["id"] = 999_999
    await call.text("for somebody else")


async def _huge(call: Call) -> None:
    await call.reply(200, _answer(call, "x" * (3 * MIB)))


async def _huge_unannounced(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    while True:
        await call.raw(b" " * 65536)


async def _huge_events(call: Call) -> None:
    await call.begin_events()
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'
    while True:
        await call.raw(b"event: message\ndata: " + note % (b"x" * 50_000) + b"\n\n")


async def _one_endless_event(call: Call) -> None:
    await call.begin_events()
    await call.raw(b"event: message\ndata: ")
    while True:
        await call.raw(b"x" * 65536)


async def _gzip_bomb(call: Call) -> None:
    await call.reply(200, GZIP_BOMB, Content_Encoding="gzip")


async def _deflate_bomb(call: Call) -> None:
    await call.reply(200, DEFLATE_BOMB, Content_Encoding="deflate")


async def _nested_brackets(call: Call) -> None:
    await call.reply(200, b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


async def _many_objects(call: Call) -> None:
    await call.reply(200, b'{"jsonrpc":"2.0","id":1,"result":{"content":[' + b"{}," * 600_000 + b"{}]}}")


async def _unasked_encoding(call: Call) -> None:
    await call.reply(200, _answer(call, "x"), Content_Encoding="br")


async def _broken_gzip(call: Call) -> None:
    await call.reply(200, b"not gzip at all", Content_Encoding="gzip")


async def _not_json(call: Call) -> None:
    await call.reply(200, b'{"jsonrpc": "2.0", "id": 1, "result": {')


async def _html(call: Call) -> None:
    await call.reply(200, b"<html>10.0.0.7 is down</html>", "text/html")


async def _odd_charset(call: Call) -> None:
    await call.reply(200, _answer(call, "x"), "text/event-stream; charset=punycode")


async def _not_a_result(call: Call) -> None:
    await call.result({"content": "nothing of the kind"})


async def _invalid_utf8(call: Call) -> None:
    await call.reply(200, _answer(call, "x").replace(b'"x"', b'"\xff\xfe"'))


async def _accepted(call: Call) -> None:
    await call.reply(202)


async def _empty(call: Call) -> None:
    await call.reply(200)


async def _server_error(call: Call) -> None:
    await call.reply(503, b"Traceback (most recent call last): 10.0.0.7", "text/plain")


async def _no_credentials(call: Call) -> None:
    await call.reply(401, b"{}", WWW_Authenticate="Bearer")


async def _die_at_once(call: Call) -> None:
    call.writer.transport.abort()


async def _die_in_the_middle(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    call.writer.transport.abort()


async def _die_in_the_events(call: Call) -> None:
    await call.begin_events()
    await call.raw(b'event: message\ndata: {"jsonrpc"')
    call.writer.transport.abort()


async def _not_http(call: Call) -> None:
    await call.raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def _asks_a_person(call: Call) -> None:
    await call.result({"resultType": "input_required", "inputRequests": {}, "requestState": "x"})


Case = tuple[Callable[[Call], Awaitable[None]], set[Kind]]
CASES: list[Case] = [
    (_hang, {"timeout"}),
    (_drip, {"timeout"}),
    (_drip_json, {"timeout"}),
    (_drip_headers, {"timeout", "broken"}),
    (_endless_headers, {"broken"}),
    (_wrong_id, {"timeout"}),
    (_huge, {"oversized"}),
    (_huge_unannounced, {"oversized"}),
    (_huge_events, {"oversized"}),
    (_one_endless_event, {"oversized"}),
    (_gzip_bomb, {"oversized"}),
    (_deflate_bomb, {"oversized"}),
    (_nested_brackets, {"protocol"}),
    (_many_objects, {"oversized"}),
    (_unasked_encoding, {"protocol"}),
    (_broken_gzip, {"protocol"}),
    (_not_json, {"protocol"}),
    (_html, {"protocol"}),
    (_odd_charset, {"protocol", "broken"}),
    (_not_a_result, {"protocol"}),
    (_invalid_utf8, {"protocol"}),
    (_accepted, {"protocol"}),
    (_empty, {"protocol"}),
    (_server_error, {"status"}),
    (_no_credentials, {"credentials"}),
    (_die_at_once, {"broken"}),
    (_die_in_the_middle, {"broken"}),
    (_die_in_the_events, {"broken"}),
    (_not_http, {"broken"}),
    (_asks_a_person, {"input", "protocol"}),
]


@pytest.mark.parametrize(("wrong", "kinds"), CASES, ids=[case[0].__name__ for case in CASES])
async def test_a_wrong_answer_ends_its_own_call_only(
    wrong: Callable[[Call], Awaitable[None]], kinds: set[Kind], connect: Connect
) -> None:
    good_may_answer = asyncio.Event()

    async def on_call(call: Call) -> None:
        if call.tool == "bad":
            await wrong(call)
        else:
            await good_may_answer.wait()
            await call.text("fine")

    loop = asyncio.get_running_loop()
    async with serving(on_call, TOOLS) as scripted:
        server = connect(scripted)
        await server.tools()
        side_by_side = asyncio.create_task(call(server, "good"))
        await scripted.arrived("tools/call")
        began = loop.time()
        with pytest.raises(ToolFailed) as caught:
            await call(server, "bad", seconds=1.0)
        assert loop.time() - began < 30
        fault = caught.value.fault
        assert fault.kind in kinds
        assert (
            len(scripted.calls()) - 1 == len([seen for seen in scripted.calls() if seen.tool == "bad"]) == 1
        )
        for leaked in ("10.0.0.7", "Traceback", "127.0.0.1", "Bearer"):
            assert leaked not in fault.words
        good_may_answer.set()
        assert rendered(await side_by_side) == '{"text":"fine"}'
        assert rendered(await call(server, "good")) == '{"text":"fine"}'
        assert len(scripted.calls("initialize")) == 1


@pytest.mark.requirement("TOOLS-GUARD")
async def test_a_gzip_bomb_costs_no_memory(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        await call.reply(200, GZIP_BOMB, Content_Encoding="gzip")

    async with serving(on_call, TOOLS) as scripted:
        server = connect(scripted)
        await server.tools()
        with peak_bytes() as peak, pytest.raises(ToolFailed):
            await call(server, "bad")
        assert peak() < 8 * MIB


@pytest.mark.requirement("TOOLS-GUARD")
async def test_a_compressed_answer_of_ordinary_size_is_read(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        assert call.headers["accept-encoding"] == "identity"
        await call.reply(200, gzip.compress(_answer(call, "small" * 30_000)), Content_Encoding="gzip")

    async with serving(on_call, TOOLS) as scripted:
        assert rendered(await call(connect(scripted), "bad")) == '{"text":"%s"}' % ("small" * 30_000)


@pytest.mark.requirement("TOOLS-CUT")
async def test_an_answer_under_2_mib_is_read_and_cut(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        await call.reply(200, _answer(call, "x" * (2 * MIB - 1000)))

    async with serving(on_call, TOOLS) as scripted:
        output = rendered(await call(connect(scripted), "bad"))
    assert MAX_BYTES - 1000 < len(output) <= MAX_BYTES
    assert json.loads(output)["notice"].startswith(f"The output had {2 * MIB - 1000} bytes")


@pytest.mark.requirement("TOOLS-TIMEOUT")
async def test_cancelling_a_call_tells_the_server_and_leaves_the_session(connect: Connect) -> None:
    arrived = asyncio.Event()

    async def on_call(call: Call) -> None:
        if call.tool == "bad":
            arrived.set()
            await asyncio.sleep(60)
        await call.text("fine")

    async with serving(on_call, TOOLS) as scripted:
        server = connect(scripted)
        task = asyncio.create_task(call(server, "bad"))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rendered(await call(server, "good")) == '{"text":"fine"}'
        await scripted.arrived("notifications/cancelled")
        assert len(scripted.calls("initialize")) == 1


async def test_a_server_that_hangs_on_everything_holds_up_nobody(connect: Connect) -> None:
    async def hang(call: Call) -> bool:
        if call.rpc == "notifications/cancelled" or call.tool == "bad":
            await asyncio.sleep(60)
        return False

    async def on_call(call: Call) -> None:
        await call.text("fine")

    loop = asyncio.get_running_loop()
    async with serving(on_call, TOOLS, on_any=hang) as scripted:
        server = connect(scripted)
        with pytest.raises(ToolFailed, match="timeout"):
            await call(server, "bad", seconds=0.2)
        began = loop.time()
        assert rendered(await call(server, "good")) == '{"text":"fine"}'
        assert loop.time() - began < 30


@pytest.mark.requirement("TOOLS-IDEMPOTENT")
@pytest.mark.parametrize(("name", "sent"), [("bad", 1), ("good", 2), ("safe", 2)])
async def test_only_an_idempotent_call_is_retried_when_the_connection_broke(
    name: str, sent: int, connect: Connect
) -> None:
    async def on_call(call: Call) -> None:
        call.writer.transport.abort()

    async with serving(on_call, TOOLS) as scripted:
        with pytest.raises(ToolFailed, match="broken"):
            await call(connect(scripted), name)
        assert len(scripted.calls()) == sent


async def test_the_servers_own_words_about_a_refused_call_are_passed_on(connect: Connect) -> None:
    async def on_call(call: Call) -> None:
        await call.error(-32602, "order_id must look like ORD-1001", status=400)

    async with serving(on_call, TOOLS) as scripted:
        with pytest.raises(ToolFailed) as caught:
            await call(connect(scripted), "bad")
        assert caught.value.fault.words.endswith("It said: order_id must look like ORD-1001")
