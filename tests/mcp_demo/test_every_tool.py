"""Each tool, called with all kinds of valid arguments, answers in the form it promises."""

import json
from typing import Any

import jsonschema
import pytest

from tests.mcp_demo.demo_server import DemoServer
from tests.mcp_demo.valid_calls import CALLS

EACH = [(name, arguments) for name, calls in CALLS.items() for arguments in calls]


@pytest.fixture(scope="module")
def tools(own_server: DemoServer) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in own_server.rpc("tools/list")["result"]["tools"]}


def test_each_tool_is_called_here(tools: dict[str, dict[str, Any]]) -> None:
    assert set(CALLS) == set(tools)
    for name, calls in CALLS.items():
        asked = {argument for arguments in calls for argument in arguments}
        missing = set(tools[name]["inputSchema"]["properties"]) - asked
        assert missing <= {"date_from", "date_to"}, f"{name} is never called with {missing}"


@pytest.mark.parametrize(("name", "arguments"), EACH)
def test_a_result_is_what_its_schema_says_and_its_text_the_same(
    own_server: DemoServer, tools: dict[str, dict[str, Any]], name: str, arguments: dict[str, Any]
) -> None:
    jsonschema.validate(arguments, tools[name]["inputSchema"])
    result = own_server.call(name, arguments)

    assert result["isError"] is False
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.validate(result["structuredContent"], tools[name]["outputSchema"], format_checker=checker)
    assert [block["type"] for block in result["content"]] == ["text"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in CALLS
        if name.startswith(("get", "list", "find", "search", "rank", "compare", "recommend", "track"))
    ],
)
def test_the_same_question_has_the_same_answer(server: DemoServer, name: str) -> None:
    first, second = (server.call(name, CALLS[name][0]) for _ in range(2))
    assert first == second
