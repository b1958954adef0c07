"""Each tool answers valid calls with a JSON object, as structured content and as text."""

import base64
import json
from typing import Any

import jsonschema
import pytest

from tests.mcp_demo.demo_server import DemoServer
from tests.mcp_demo.valid_calls import CALLS

EACH = [(name, arguments) for name, calls in CALLS.items() for arguments in calls]


@pytest.fixture(scope="module")
def tools(own_server: DemoServer) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in own_server.call_rpc("tools/list")["result"]["tools"]}


def test_each_tool_is_called_here(tools: dict[str, dict[str, Any]]) -> None:
    assert set(CALLS) == set(tools)


@pytest.mark.parametrize(("name", "arguments"), EACH)
def test_call_returns_an_object(
    own_server: DemoServer, tools: dict[str, dict[str, Any]], name: str, arguments: dict[str, Any]
) -> None:
    jsonschema.validate(arguments, tools[name]["inputSchema"])
    result = own_server.call(name, arguments)

    assert result["isError"] is False
    text, *images = result["content"]
    shown = json.loads(text["text"])
    if arguments.get("chart"):
        (image,) = images
        assert (image["type"], image["mimeType"], bool(shown["points"])) == ("image", "image/png", True)
        assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    else:
        assert (images, shown) == ([], result["structuredContent"])
