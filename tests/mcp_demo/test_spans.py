"""A call is a span in its caller's trace."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest
from mcp import Client
from mcp_types import RequestParamsMeta
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentchat.mcp_demo.server import build_server
from agentchat.mcp_demo.shop import Shop
from agentchat.runtime import telemetry

TRACE_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    telemetry.configure("mcp-demo", None, exporter=exporter)
    yield exporter
    telemetry.shut_down()


async def test_a_call_is_a_span_of_the_trace_that_its_meta_names(
    shop: Shop, exporter: InMemorySpanExporter
) -> None:
    async with asyncio.timeout(20), Client(build_server(shop), mode="legacy") as client:
        # An open map by the SDK's word, which mypy cannot express yet.
        meta = cast(RequestParamsMeta, {"traceparent": f"00-{TRACE_ID:032x}-00f067aa0ba902b7-01"})
        await client.call_tool("get_order", {"order_id": "ORD-9999"}, meta=meta)
    (span,) = exporter.get_finished_spans()

    assert span.name == "tools/call get_order"
    assert span.context.trace_id == TRACE_ID
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_order",
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "error.type": "tool_error",
    }
