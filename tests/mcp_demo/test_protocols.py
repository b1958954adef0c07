"""The protocol versions, asked for by hand and by the SDK's client."""

import asyncio
from typing import Literal

import pytest
from mcp import Client

from tests.mcp_demo.demo_server import DemoServer

HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("version", [None, *HANDSHAKE_VERSIONS])
def test_every_version_needs_no_session_and_gets_the_same_tools(
    server: DemoServer, version: str | None
) -> None:
    headers = {} if version is None else {"mcp_protocol_version": version}

    assert len(server.call_rpc("tools/list", **headers)["result"]["tools"]) == 21
    call = {"name": "get_product", "arguments": {"product_id": "PRD-113"}}
    result = server.call_rpc("tools/call", call, **headers)["result"]
    assert result["structuredContent"]["product"]["name"] == "Larch Mid Hiking Boot"


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_sdks_client_lists_and_calls(
    server: DemoServer, mode: Literal["legacy", "auto"], version: str
) -> None:
    async with asyncio.timeout(20), Client(server.url, mode=mode, read_timeout_seconds=10) as client:
        assert client.protocol_version == version
        tools = (await client.list_tools()).tools
        order = await client.call_tool("get_order", {"order_id": "ORD-1028"})
        refused = await client.call_tool("get_order", {"order_id": "ORD-9999"})

    assert len(tools) == 21
    assert order.structured_content["customer_name"] == "Bilal Haddad"
    assert refused.is_error
