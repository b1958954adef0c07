"""Build the MCP server from the shop's tools, with a log line and a span for each call."""

import logging
import time
from typing import Any

from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from opentelemetry.trace import SpanKind

from agentchat.mcp_demo.server_information import DESCRIPTION, NAME, TITLE, VERSION
from agentchat.mcp_demo.shop import Shop
from agentchat.mcp_demo.shop.calendar import TODAY
from agentchat.mcp_demo.tools import add_tools
from agentchat.runtime import genai_attributes, logs, tracing

INSTRUCTIONS = (
    f"Tools of the outdoor shop Alder & Finch. Today in the shop is {TODAY}; prices are in EUR. "
    "Ids look like ORD-1028 (orders), CUST-001 (customers), PRD-113 (products), TCK-502 (tickets), and mean "
    "the same in every tool. find_customer finds a customer's id, search_products a product's."
)

_UNCHANGING = CacheHint(ttl_ms=300_000, scope="public")


def build_server(shop: Shop) -> MCPServer:
    """Build the server with all tools, which read and change `shop`."""
    server: MCPServer = MCPServer(
        NAME,
        version=VERSION,
        title=TITLE,
        description=DESCRIPTION,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": _UNCHANGING, "server/discover": _UNCHANGING},
        subscriptions=False,
        middleware=[trace_call],
        log_level="WARNING",
    )
    # The SDK logs errors together with the callers' input.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    add_tools(server, shop)
    return server


async def trace_call(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Log a tool call, in a span of the trace that `_meta` or else the HTTP headers name."""
    if ctx.method != "tools/call":
        return await call_next(ctx)
    tool = str((ctx.params or {}).get("name"))[:128]
    meta: dict[str, Any] = dict(ctx.meta or {})
    named: dict[str, str] = {key: str(meta[key]) for key in ("traceparent", "tracestate") if key in meta}
    headers: dict[str, str] = dict(ctx.request.headers) if ctx.request else {}
    attributes = {
        genai_attributes.OPERATION_NAME: genai_attributes.EXECUTE_TOOL,
        genai_attributes.TOOL_NAME: tool,
        genai_attributes.MCP_METHOD_NAME: ctx.method,
        genai_attributes.MCP_PROTOCOL_VERSION: ctx.protocol_version,
    }
    with tracing.open_span(
        f"tools/call {tool}",
        context=tracing.extract(named or headers),
        kind=SpanKind.SERVER,
        attributes=attributes,
    ) as span:
        began = time.perf_counter()
        result = await call_next(ctx)
        is_error = isinstance(result, dict) and bool(result.get("isError"))
        if is_error:
            span.set_attribute(genai_attributes.ERROR_TYPE, "tool_error")
        logs.get_logger("tools").info(
            "tool_called",
            tool=tool,
            is_error=is_error,
            ms=round((time.perf_counter() - began) * 1000, 2),
            trace_id=tracing.get_trace_id(),
        )
    return result
