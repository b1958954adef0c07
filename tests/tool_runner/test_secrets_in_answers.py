"""Servers that repeat the headers they were sent: where they refuse, and in what they list."""

import pytest
from structlog.testing import capture_logs

from tests.tool_runner.conftest import Connect
from tests.tool_runner.scripted import Call, serving, tool
from tool_runner.faults import ToolFailed

pytestmark = pytest.mark.requirement("SECRETS-SEALED")

CANARY = "canary-7f3a9c"
HEADERS = {"Authorization": f"Bearer {CANARY}"}


async def _answer(call: Call) -> None:
    await call.text("")


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize(("code", "chars"), [(-32603, 980), (-32000, 180)])
async def test_a_refusal_is_told_without_credentials(
    connect: Connect, method: str, code: int, chars: int
) -> None:
    async def refuse(call: Call) -> bool:
        if call.rpc == method:
            # As long as to be cut within the secret, which is to be seen before that.
            await call.error(code, f"{'x' * chars} no: {call.headers['authorization']}")
        return call.rpc == method

    async with serving(_answer, on_any=refuse) as scripted:
        with capture_logs() as logged, pytest.raises(ToolFailed) as raised:
            await connect(scripted, **HEADERS).tools()
        assert scripted.calls(method)[0].headers["authorization"] == HEADERS["Authorization"]
    told = f"{raised.value.fault} {raised.value.fault.words} {logged}"
    assert "x" * chars in told
    assert "canary" not in told


async def test_tools_are_listed_without_credentials(connect: Connect) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string", "description": f"not {CANARY}", "default": CANARY}},
    }
    unfit = {"type": "object", "properties": {f"{CANARY}!": {}}, "required": [f"{CANARY}!"]}
    described = tool("good", schema=schema) | {"description": f"Called with Bearer {CANARY}."}
    listed = [described, tool(f"of {CANARY}"), tool("unfit", schema=unfit)]
    async with serving(_answer, listed) as scripted:
        with capture_logs() as logged:
            tools = await connect(scripted, **HEADERS).tools()
    assert list(tools) == ["good"]
    assert tools["good"].description == "Called with [hidden]."
    assert tools["good"].input_schema["properties"]["id"]["default"] == "[hidden]"
    (line,) = (line for line in logged if line["event"] == "tools_left_out")
    assert line["first"] == [
        "of [hidden] (its name holds a credential)",
        "unfit (a required property has an unusable name: [hidden]!)",
    ]
    assert "canary" not in f"{tools} {logged}"
