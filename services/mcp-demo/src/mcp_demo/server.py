"""The MCP server: lists the tools and calls them. The SDK does the rest of the protocol."""

import difflib
import time
from contextlib import AbstractContextManager
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry.trace import Span, SpanKind
from pydantic import ValidationError

from mcp_demo.information import DESCRIPTION, NAME, TITLE, VERSION
from mcp_demo.shop import Shop
from mcp_demo.shop.calendar import TODAY
from mcp_demo.shop.errors import ShopError
from mcp_demo.tools import Effect, ShopTool
from mcp_demo.tools.arguments import BadArgumentsError, schema_of
from runtime import genai, logs, telemetry

INSTRUCTIONS = (
    f"Tools of the outdoor shop Alder & Finch. Today in the shop is {TODAY}; prices are in EUR. "
    "Ids look like ORD-1028 (orders), CUST-001 (customers), PRD-113 (products), TCK-502 (tickets), and mean "
    "the same in every tool. find_customer finds a customer's id, search_products a product's."
)

_UNCHANGING = CacheHint(ttl_ms=300_000, scope="public")


def build_server(shop: Shop, tools: tuple[ShopTool, ...]) -> Server[dict[str, Any]]:
    by_name = {tool.name: tool for tool in tools}
    listing = [_definition(tool) for tool in tools]
    schemas = {tool.name: tool.input_schema for tool in listing}
    log = logs.get_logger("tools")

    async def list_tools(
        _context: ServerRequestContext[dict[str, Any]], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Unknown cursor: the list of tools has one page")
        return types.ListToolsResult(tools=listing)

    async def call_tool(
        context: ServerRequestContext[dict[str, Any]], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = by_name.get(params.name)
        if tool is None:
            near = difflib.get_close_matches(params.name[:128], by_name, n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:128]}{hint}")
        with _span(context, tool) as span:
            began = time.perf_counter()
            arguments = asked(context, tool, params)
            if isinstance(arguments, types.InputRequiredResult):
                log.info("tool_asks", tool=tool.name, trace_id=telemetry.current_trace_id())
                return arguments
            result = _call(tool, shop, arguments)
            if result.is_error:
                span.set_attribute(genai.ERROR_TYPE, "tool_error")
            ms = round((time.perf_counter() - began) * 1000, 2)
            trace_id = telemetry.current_trace_id()
            log.info("tool_called", tool=tool.name, is_error=result.is_error, ms=ms, trace_id=trace_id)
        return result

    server = Server(
        NAME,
        version=VERSION,
        title=TITLE,
        description=DESCRIPTION,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": _UNCHANGING, "server/discover": _UNCHANGING},
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # Its own spans would go to OpenTelemetry's global provider, which this system does not use.
    server.middleware[:] = [_translating_errors(server)]
    return server


def _definition(tool: ShopTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.arguments),
        output_schema=schema_of(tool.result),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.effect is Effect.READS,
            destructive_hint=tool.effect is Effect.REPLACES,
            idempotent_hint=tool.effect is not Effect.ADDS,
            open_world_hint=False,
        ),
        _meta={"category": tool.category},
    )


def _translating_errors(server: Server[dict[str, Any]]) -> ServerMiddleware[dict[str, Any]]:
    """Errors that the SDK answers in fewer words: a missing method is not found whatever its params, invalid
    params are named, the text of a crash stays in the log.
    """

    async def translate(ctx: ServerRequestContext[dict[str, Any]], call_next: CallNext) -> HandlerResult:
        is_request = ctx.request_id is not None
        if is_request and ctx.method != "initialize" and server.get_request_handler(ctx.method) is None:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        try:
            return await call_next(ctx)
        except MCPError:
            raise
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise MCPError(types.INVALID_PARAMS, f"Invalid params: {wrong}") from None
        except Exception:  # noqa: BLE001 - the outermost frame of a request
            logs.get_logger("server").exception("request_failed", method=ctx.method)
            raise MCPError(types.INTERNAL_ERROR, "Internal error") from None

    return translate


def _span(context: ServerRequestContext[dict[str, Any]], tool: ShopTool) -> AbstractContextManager[Span]:
    """A span in the caller's trace, which `_meta` names, or else the HTTP request's headers."""
    meta: dict[str, Any] = dict(context.meta or {})
    named: dict[str, str] = {key: str(meta[key]) for key in ("traceparent", "tracestate") if key in meta}
    headers: dict[str, str] = dict(context.request.headers) if context.request else {}
    return telemetry.span(
        f"tools/call {tool.name}",
        context=telemetry.extract(named or headers),
        kind=SpanKind.SERVER,
        attributes={
            genai.OPERATION_NAME: genai.EXECUTE_TOOL,
            genai.TOOL_NAME: tool.name,
            genai.MCP_METHOD_NAME: context.method,
            genai.MCP_PROTOCOL_VERSION: context.protocol_version,
        },
    )


def _call(tool: ShopTool, shop: Shop, arguments: dict[str, Any]) -> types.CallToolResult:
    try:
        result = tool.call(shop, arguments)
    except (BadArgumentsError, ShopError) as refusal:
        return types.CallToolResult(content=[_text(str(refusal))], is_error=True)
    # One encoding for both, so that the text block and the structured content cannot differ.
    encoded = msgspec.json.encode(result)
    return types.CallToolResult(
        content=[_text(encoded.decode())], structured_content=msgspec.json.decode(encoded), is_error=False
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


_KEY = "missing"


def asked(
    context: ServerRequestContext[dict[str, Any]], tool: ShopTool, params: types.CallToolRequestParams
) -> dict[str, Any] | types.InputRequiredResult:
    """The arguments with a person's answers, or the question for the person (MCP 2026-07-28, patterns/mrtr).

    A missing argument is requested from a person only where the client supports elicitation, and in the
    protocol that repeats the call with the answers: this server keeps no sessions.
    """
    arguments = params.arguments or {}
    missing = [name for name in tool.asks_for if arguments.get(name) is None]
    if not missing or not _can_ask(context):
        return arguments
    answer = (params.input_responses or {}).get(_KEY)
    if isinstance(answer, types.ElicitResult):
        given = answer.content or {}
        return arguments | {name: given[name] for name in missing if name in given}
    return types.InputRequiredResult(input_requests={_KEY: _question(tool, missing)})


def _can_ask(context: ServerRequestContext[dict[str, Any]]) -> bool:
    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    return elicitation.form is not None or elicitation.url is None


def _question(tool: ShopTool, missing: list[str]) -> types.ElicitRequest:
    properties = schema_of(tool.arguments)["properties"]
    wanted = {
        name: {"type": "string", "title": name.replace("_", " ").capitalize()}
        | {"description": properties[name]["description"], "minLength": 1, "maxLength": 100}
        for name in missing
    }
    schema = {"type": "object", "properties": wanted, "required": missing}
    message = f"{tool.title}: {', '.join(missing).replace('_', ' ')}?"
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
