"""What `tools/list` says of the tools."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcp_demo.shop import Shop
from mcp_demo.tools import TOOLS, Effect, ShopTool
from tests.mcp_demo.demo_server import DemoServer
from tests.mcp_demo.valid_calls import CALLS

README = Path(__file__).parents[2] / "services" / "mcp-demo" / "README.md"
# The 21 of the specification (10); a category may have more.
CATEGORIES = {
    "Order Status": 5,
    "Business Intelligence": 4,
    "Recommendations": 3,
    "Customer Support": 5,
    "Product Discovery": 4,
}
EFFECTS = {tool.name: tool.effect for tool in TOOLS}


@pytest.fixture(scope="module")
def tools(server: DemoServer) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = server.rpc("tools/list")["result"]["tools"]
    return listed


def test_each_of_the_five_categories_has_its_tools(tools: list[dict[str, Any]]) -> None:
    names = [tool["name"] for tool in tools]
    categories = [tool["_meta"]["category"] for tool in tools]

    assert len(set(names)) == len(names)
    assert set(categories) == set(CATEGORIES)
    assert all(categories.count(category) >= least for category, least in CATEGORIES.items())
    assert categories == sorted(categories, key=list(CATEGORIES).index)


def test_a_model_can_choose_each_tool_by_what_it_says(tools: list[dict[str, Any]]) -> None:
    assert len({tool["title"] for tool in tools}) == len(tools)
    for tool in tools:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", tool["name"])
        assert 80 <= len(tool["description"]) <= 400, tool["name"]
        assert tool["annotations"]["title"] == tool["title"]


def test_each_argument_is_described_and_nothing_else_is_taken(tools: list[dict[str, Any]]) -> None:
    for tool in tools:
        schema = tool["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        for name, argument in schema["properties"].items():
            assert argument["description"], f"{tool['name']}.{name}"
            assert {"type", "anyOf"} & set(argument), f"{tool['name']}.{name}"


def test_each_result_has_a_schema_of_an_object(tools: list[dict[str, Any]]) -> None:
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
        assert tool["outputSchema"]["required"]


def test_the_hints_follow_from_the_effect_of_each_tool(tools: list[dict[str, Any]]) -> None:
    for tool in tools:
        hints = {name: hint for name, hint in tool["annotations"].items() if name != "title"}
        assert hints == {
            "readOnlyHint": EFFECTS[tool["name"]] is Effect.READS,
            "idempotentHint": EFFECTS[tool["name"]] is not Effect.ADDS,
            "destructiveHint": EFFECTS[tool["name"]] is Effect.REPLACES,
            "openWorldHint": False,
        }


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_has_the_effect_that_it_declares(shop: Shop, tool: ShopTool) -> None:
    before = _state(shop)
    tool.call(shop, CALLS[tool.name][0])
    once = _state(shop)
    tool.call(shop, CALLS[tool.name][0])
    assert (once == before) is (tool.effect is Effect.READS)
    assert (_state(shop) == once) is (tool.effect is not Effect.ADDS)


def _state(shop: Shop) -> str:
    return repr(vars(shop))


def test_the_tools_of_the_readme_are_what_it_says(tools: list[dict[str, Any]]) -> None:
    rows = re.findall(
        r"^\| ([A-Z][\w ]+) \| `(\w+)` \| .+ \| (no|adds|replaces) \|$", README.read_text(), re.M
    )
    written = {Effect.READS: "no", Effect.ADDS: "adds", Effect.REPLACES: "replaces"}
    listed = [(tool["_meta"]["category"], tool["name"], written[EFFECTS[tool["name"]]]) for tool in tools]
    assert len(rows) == sum(CATEGORIES.values())
    assert set(rows) <= set(listed)
