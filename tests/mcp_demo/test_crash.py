"""A mistake of ours in a tool stays ours."""

import asyncio
from dataclasses import replace

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from mcp_demo.server import build_server
from mcp_demo.shop import Shop
from mcp_demo.tools import TOOLS
from mcp_demo.tools.tool import ShopTool


def broken(tool: ShopTool) -> ShopTool:
    def run(_shop: Shop, _arguments: object) -> object:
        raise RuntimeError("a secret of the house")

    return replace(tool, run=run)  # type: ignore[arg-type]  # it never returns


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_crash_is_an_internal_error_without_its_text(shop: Shop, mode: str) -> None:
    server = build_server(shop, tuple(broken(tool) for tool in TOOLS))

    async with asyncio.timeout(20), Client(server, mode=mode) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("get_order", {"order_id": "ORD-1001"})
        assert len((await client.list_tools()).tools) == len(TOOLS)

    assert raised.value.code == -32603
    assert raised.value.message == "Internal error"
