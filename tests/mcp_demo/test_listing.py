"""What `tools/list` says of the tools."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.mcp_demo.demo_server import DemoServer

README = Path(__file__).parents[2] / "services" / "mcp-demo" / "README.md"
# The one place that says how many there are: 21 (specification 10).
CATEGORIES = {
    "Order Status": 5,
    "Business Intelligence": 4,
    "Recommendations": 3,
    "Customer Support": 5,
    "Product Discovery": 4,
}
ADDS = {"open_support_ticket", "add_ticket_comment"}
REPLACES = {"cancel_order", "update_shipping_address"}


@pytest.fixture(scope="module")
def tools(server: DemoServer) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = server.rpc("tools/list")["result"]["tools"]
    return listed


@pytest.mark.requirement("MCP-TOOLS-21")
def test_there_are_21_tools_in_the_five_categories(tools: list[dict[str, Any]]) -> None:
    names = [tool["name"] for tool in tools]
    categories = [tool["_meta"]["category"] for tool in tools]

    assert len(set(names)) == len(names)
    assert {category: categories.count(category) for category in categories} == CATEGORIES
    assert categories == sorted(categories, key=list(CATEGORIES).index)


@pytest.mark.requirement("MCP-TOOLS-21")
def test_a_model_can_choose_each_tool_by_what_it_says(tools: list[dict[str, Any]]) -> None:
    assert len({tool["title"] for tool in tools}) == len(tools)
    for tool in tools:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", tool["name"])
        assert 80 <= len(tool["description"]) <= 400, tool["name"]
        assert tool["annotations"]["title"] == tool["title"]


@pytest.mark.requirement("MCP-TOOLS-21")
def test_each_argument_is_described_and_nothing_else_is_taken(tools: list[dict[str, Any]]) -> None:
    for tool in tools:
        schema = tool["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        for name, argument in schema["properties"].items():
            assert argument["description"], f"{tool['name']}.{name}"
            assert {"type", "anyOf"} & set(argument), f"{tool['name']}.{name}"


@pytest.mark.requirement("MCP-TOOLS-21")
def test_each_result_has_a_schema_of_an_object(tools: list[dict[str, Any]]) -> None:
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
        assert tool["outputSchema"]["required"]


@pytest.mark.requirement("MCP-ANNOTATIONS")
def test_the_hints_say_what_each_tool_does_to_the_shop(tools: list[dict[str, Any]]) -> None:
    for tool in tools:
        hints = {name: hint for name, hint in tool["annotations"].items() if name != "title"}
        assert hints == {
            "readOnlyHint": tool["name"] not in ADDS | REPLACES,
            "idempotentHint": tool["name"] not in ADDS,
            "destructiveHint": tool["name"] in REPLACES,
            "openWorldHint": False,
        }


@pytest.mark.requirement("MCP-TOOLS-21")
def test_the_readme_lists_the_tools_by_category(tools: list[dict[str, Any]]) -> None:
    rows = re.findall(
        r"^\| ([A-Z][\w ]+) \| `(\w+)` \| .+ \| (no|adds|replaces) \|$", README.read_text(), re.M
    )

    def effect(name: str) -> str:
        return "adds" if name in ADDS else "replaces" if name in REPLACES else "no"

    assert rows == [(tool["_meta"]["category"], tool["name"], effect(tool["name"])) for tool in tools]
