"""`tools/list` describes every tool and parameter."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client

from agentchat.mcp_demo.server import build_server
from agentchat.mcp_demo.shop import Shop
from tests.mcp_demo.demo_server import DemoServer
from tests.mcp_demo.valid_calls import CALLS

README = Path(__file__).parents[2] / "services" / "mcp-demo" / "README.md"
# The 21 of the specification (10).
CATEGORIES = {
    "Order Status": 5,
    "Business Intelligence": 4,
    "Recommendations": 3,
    "Customer Support": 5,
    "Product Discovery": 4,
}


@pytest.fixture(scope="module")
def tools(server: DemoServer) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = server.call_rpc("tools/list")["result"]["tools"]
    return listed


def test_five_categories_have_21_tools(tools: list[dict[str, Any]]) -> None:
    categories = [tool["_meta"]["category"] for tool in tools]
    assert {name: categories.count(name) for name in dict.fromkeys(categories)} == CATEGORIES
    assert len({tool["name"] for tool in tools}) == 21


def test_each_tool_and_parameter_is_described(tools: list[dict[str, Any]]) -> None:
    assert len({tool["title"] for tool in tools}) == len(tools)
    for tool in tools:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", tool["name"])
        assert 80 <= len(tool["description"]) <= 400, tool["name"]
        assert tool["annotations"]["title"] == tool["title"]
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        for name, parameter in tool["inputSchema"]["properties"].items():
            assert parameter["description"], f"{tool['name']}.{name}"


async def test_each_tool_has_the_effect_that_it_declares(shop: Shop) -> None:
    async with Client(build_server(shop)) as client:
        for tool in (await client.list_tools()).tools:
            hints = tool.annotations
            assert hints is not None
            before = repr(vars(shop))
            await client.call_tool(tool.name, CALLS[tool.name][0])
            once = repr(vars(shop))
            await client.call_tool(tool.name, CALLS[tool.name][0])
            assert (once == before) is hints.read_only_hint, tool.name
            assert (repr(vars(shop)) == once) is hints.idempotent_hint, tool.name
            assert hints.destructive_hint is (not hints.read_only_hint and hints.idempotent_hint)
            assert hints.open_world_hint is False


def test_readme_lists_the_tools(tools: list[dict[str, Any]]) -> None:
    rows = re.findall(
        r"^\| ([A-Z][\w ]+) \| `(\w+)` \| .+ \| (no|adds|replaces) \|$", README.read_text(), re.M
    )
    listed = []
    for tool in tools:
        hints = tool["annotations"]
        writes = "no" if hints["readOnlyHint"] else "replaces" if hints["idempotentHint"] else "adds"
        listed.append((tool["_meta"]["category"], tool["name"], writes))
    assert rows == listed
