"""A tool server's words reach the model: its errors, ids that are null, content of foreign types."""

import asyncio
import json
from typing import Any

import pytest

from agentchat.tool_runner.calls.call_output import render_result
from agentchat.tool_runner.faults import ToolFailed
from tests.tool_runner.conftest import Connect, call
from tests.tool_runner.scripted import Call, make_tool, serve_script

CODES = [-32000, -32001, -32002, -32042 + 1, -32600, -32601, -32602, -32603, -32700, -1, 0, 42]
TOOLS = [make_tool("read", readOnlyHint=True), make_tool("write")]


async def send(call: Call, message: dict[str, Any], form: str, status: int = 200) -> None:
    body = json.dumps({"jsonrpc": "2.0"} | message).encode()
    if form == "events":
        await call.begin_events()
        await call.send_raw(b": still here\n\nevent: message\nid: 1\ndata: " + body + b"\n\n")
        call.writer.close()
    else:
        await call.reply(status, body)


@pytest.mark.parametrize("form", ["json", "events", "400", "500"])
@pytest.mark.parametrize("code", CODES)
async def test_a_server_error_keeps_its_own_words(connect: Connect, code: int, form: str) -> None:
    async def fail(call: Call) -> None:
        error = {"code": code, "message": "Row 7 is locked", "data": {"retry": False, "by": "ada"}}
        status = int(form) if form.isdigit() else 200
        await send(call, {"id": call.message["id"], "error": error}, form, status)

    async with serve_script(fail, TOOLS) as scripted:
        server = connect(scripted)
        with pytest.raises(ToolFailed) as failed:
            await call(server, "read" if code % 2 else "write")
        assert len(scripted.list_calls()) == 1
    fault = failed.value.fault
    assert fault.kind == "refused"
    assert fault.words == (
        'The tool server refused the call. It said: Row 7 is locked {"retry":false,"by":"ada"}'
    )
    assert fault.detail == f"error {code}"


@pytest.mark.parametrize("form", ["json", "events", "500"])
@pytest.mark.parametrize("identity", [{"id": None}, {}, {"id": "999"}])
@pytest.mark.parametrize("outcome", ["error", "result"])
async def test_response_with_another_id_is_not_waited_for(
    connect: Connect, form: str, identity: dict[str, Any], outcome: str
) -> None:
    if outcome == "result" and (form == "500" or identity == {"id": "999"}):
        return
    answers: dict[str, dict[str, Any]] = {
        "error": {"error": {"code": -32700, "message": "Parse error at 3"}},
        "result": {"result": {"content": [{"type": "text", "text": "fine"}]}},
    }

    async def answer(call: Call) -> None:
        await send(call, identity | answers[outcome], form, 500 if form == "500" else 200)

    async with serve_script(answer, TOOLS) as scripted, asyncio.timeout(10):
        server = connect(scripted)
        if outcome == "result":
            assert render_result(await call(server, "write")) == '{"text":"fine"}'
        else:
            with pytest.raises(ToolFailed, match="error -32700") as failed:
                await call(server, "write")
            assert "Parse error at 3" in failed.value.fault.words


TEXT = {"type": "text", "text": "The file."}
UNSUPPORTED = "The content has a type that is not supported."


@pytest.mark.parametrize(("version", "form"), [("2024-11-05", "json"), ("2025-11-25", "events")])
@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ({"type": "video", "url": "https://x.example"}, "video"),
        ({"type": "image"}, "image"),
        ({"type": "text"}, "text"),
        ({"type": "text", "text": 6}, "text"),
        ({"type": 5}, "unknown"),
        ({}, "unknown"),
        ("words", "unknown"),
        (None, "unknown"),
        ({"type": "tool_use", "id": "1"}, "tool_use"),
    ],
)
async def test_foreign_content_block_leaves_the_others(
    connect: Connect, block: Any, kind: str, version: str, form: str
) -> None:
    async def answer(call: Call) -> None:
        result = {"content": [TEXT, block, TEXT], "isError": False}
        await send(call, {"id": call.message["id"], "result": result}, form)

    async with serve_script(answer, TOOLS, version=version) as scripted:
        output = json.loads(render_result(await call(connect(scripted), "read")))
    assert output == {
        "text": "The file.\nThe file.",
        "attachments": [{"type": kind, "text": UNSUPPORTED}],
    }


@pytest.mark.parametrize(
    "block",
    [
        {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "note:1", "name": "note"},
        {"type": "resource", "resource": {"uri": "note:1", "text": "Ring twice."}},
    ],
)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
async def test_block_of_a_later_protocol_is_read(
    connect: Connect, block: dict[str, Any], version: str
) -> None:
    async def answer(call: Call) -> None:
        await call.send_result({"content": [TEXT, block]})

    async with serve_script(answer, TOOLS, version=version) as scripted:
        output = json.loads(render_result(await call(connect(scripted), "read")))
    assert output["text"] == "The file."
    assert output["attachments"][0]["type"] == block["type"]


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({"content": "plain words"}, {"text": "plain words"}),
        ({"structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": None, "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [TEXT], "isError": True}, {"error": "The file."}),
    ],
)
async def test_result_in_an_odd_form_is_read(connect: Connect, result: Any, output: Any) -> None:
    async def answer(call: Call) -> None:
        await call.send_result(result)

    async with serve_script(answer, TOOLS) as scripted:
        assert json.loads(render_result(await call(connect(scripted), "read"))) == output
