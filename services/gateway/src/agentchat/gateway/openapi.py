"""Describe the API: a document at /openapi.json, a page to try calls out at /docs.

The page is Swagger UI, whose files are in the package offapi and are served from here: a browser loads
nothing from other hosts.
"""

import asyncio
import ipaddress
import re
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import OpenAPIRenderPlugin
from litestar.openapi.spec import Components, Reference, SecurityScheme, Tag
from litestar.response import Redirect

from agentchat.contracts import http, wire
from agentchat.contracts.examples import AGENT, TRACE
from agentchat.contracts.ownership import MAX_USER_ID
from agentchat.contracts.webhooks import EVENT_TYPES, WEBHOOKS
from agentchat.gateway.access import end_user
from agentchat.gateway.http.problems import Refusal, RefusalFormat, RequestIds, format_problem
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.chat import STREAM_EVENTS
from agentchat.gateway.protocols.error_formats import choose_refusal_format
from agentchat.gateway.protocols.openai.completion_types import OpenAIError
from agentchat.gateway.protocols.openai.openai_errors import format_openai_error
from agentchat.runtime.listening_socket import is_loopback

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers by which a browser runs only our own files, fetches nothing from elsewhere, and lets no other
site's page include them: a script of ours holds the demo's key.
"""

_ABOUT = """\
Send a message to an agent, get its reply as one JSON document or as a stream of events, and read
conversations back.

Every answer carries X-Trace-Id. Every refusal is a problem document (RFC 9457), whose `code` is the same as
that of a stream's `error` event. No CORS header is ever sent, since a key does not belong in a browser."""

_TAGS = {
    "chat": "Ask an agent, and cancel what was asked.",
    "conversations": "Read conversations back, and delete them.",
    "messages": "Feedback on replies.",
    "files": "Files and images that messages attach.",
    "approvals": "Tool calls that need approval, and what is decided.",
    "account": "The account's usage and agents.",
    "users": "The end users of an account (X-User-Id).",
    "webhooks": "Where an account receives what happens (Standard Webhooks 1.0.0).",
    "service": "What needs no key.",
    "openai": "Agents as models, for clients of OpenAI's API.",
    "ai-sdk": "Agents for the AI SDK's `useChat`.",
    "ag-ui": "Agents for clients of AG-UI.",
    "admin": "For operators: served where AGENTCHAT_ADMIN_TOKEN is set, to who sends that token.",
}
_TAGS_WITH_USERS = {"chat", "conversations", "messages", "files", "approvals", "openai", "ai-sdk", "ag-ui"}
_NAMES = {
    "ApprovalRecord": "Approval",
    "CalledTool": "ApprovalTool",
    "FinishedCall": "ToolCall",
    "PendingClientCall": "ClientToolCall",
    "RatingSummary": "FeedbackSummary",
    "RunTokens": "TokenCounts",
    "StoredFeedback": "Feedback",
    "SubmittedResult": "ToolResult",
}
"""Names in the document of classes that are called otherwise in `contracts`."""
_USER_PARAMETER = {
    "name": end_user.HEADER,
    "in": "header",
    "required": False,
    "description": "The end user: visible ASCII. The request then sees this user's conversations only.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_USER_ID},
}
"""The header of operations with one of these tags; some accounts require it."""
_SCHEMES: dict[str, SecurityScheme | Reference] = {
    "key": SecurityScheme(
        type="apiKey",
        name="X-Api-Key",
        security_scheme_in="header",
        description="The account's key, `sk-ac-` and 43 characters. No other scheme counts.",
    ),
    "bearer": SecurityScheme(
        type="http", scheme="bearer", description="The account's key, for other protocols."
    ),
    "admin": SecurityScheme(type="http", scheme="bearer", description="The token in AGENTCHAT_ADMIN_TOKEN."),
}
_REFUSALS = {
    400: "The request is wrong: `errors` names the fields.",
    401: "No valid key.",
    403: "Not in the plan, or not allowed.",
    404: "There is no such resource.",
    409: "It conflicts with the state of the resource.",
    413: "Too large.",
    415: "Not JSON.",
    429: "A limit of the plan; Retry-After says when to try again.",
    500: "A fault of the service.",
    503: "Temporarily unavailable; Retry-After says when to try again.",
}
"""The refusals of all operations, in the format that their address has."""

_PAGE = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Agent Chat Service</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="swagger-ui"></div><noscript>See <a href="/openapi.json">openapi.json</a>.</noscript>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script></body></html>
"""
_START = """\
const key = %s;
const ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  onComplete: () => {
    if (key) {
      ui.preauthorizeApiKey("key", key);
      ui.preauthorizeApiKey("bearer", key);
    }
  },
});
"""


class _SwaggerPage(OpenAPIRenderPlugin):
    """Swagger UI without a script in the page, so that a Content-Security-Policy can forbid these."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        return _PAGE


def _serve_packaged_file(name: str, file: str, media_type: str) -> Any:
    @get(f"/{name}", media_type=media_type, cache_control=None)
    async def get_packaged_file() -> Response[bytes]:
        headers = {"content-type": media_type, "cache-control": "max-age=3600"}
        return Response(_read_packaged_file(file), headers=headers)

    return get_packaged_file


_FORWARDED = {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
"""Headers that proxies add."""


@get("/start.js")
async def start_script(request: JsonRequest) -> Response[bytes]:
    """Fill in the demo's key, for a browser on the same machine."""
    demo = request.services.demo if _is_on_this_machine(request) else None
    script = _START % wire.encode(demo and demo.key).decode()
    headers = {"content-type": "text/javascript; charset=utf-8", "cache-control": "no-store"}
    return Response(script.encode(), headers=headers)


def _is_on_this_machine(request: JsonRequest) -> bool:
    """Return True if a browser of this machine asks: a Host header can be forged.

    The connection must come from a loopback address, and not from a proxy there.
    """
    if not is_loopback(request.headers.get("host", "")) or _FORWARDED & request.headers.keys():
        return False
    try:
        return ipaddress.ip_address(request.client.host if request.client else "").is_loopback
    except ValueError:
        return False


def build_openapi_config() -> OpenAPIConfig:
    """Build the configuration: its router is the application's own."""
    router = Router(
        "/docs",
        route_handlers=[
            start_script,
            _serve_packaged_file("swagger-ui.css", "swagger_style.css", "text/css"),
            _serve_packaged_file("swagger-ui-bundle.js", "swagger_bundle.js", "text/javascript"),
        ],
        response_headers=PAGE_HEADERS,
        include_in_schema=False,
    )
    return OpenAPIConfig(
        title="Agent Chat Service",
        version="1",
        description=_ABOUT,
        path="/docs",
        openapi_router=router,
        render_plugins=[_SwaggerPage(path="/")],
        use_handler_docstrings=True,
        components=Components(security_schemes=_SCHEMES),
        tags=[Tag(name=name, description=description) for name, description in _TAGS.items()],
    )


@get("/", include_in_schema=False, status_code=302)
async def open_docs() -> Redirect:
    """Lead a browser to the page that describes the API."""
    return Redirect("/docs")


@get("/openapi.json", operation_id="get_openapi", summary="Get this document.", tags=["service"])
async def get_openapi(request: JsonRequest) -> Response[bytes]:
    """Return the OpenAPI document."""
    demo = request.services.demo
    document = await asyncio.to_thread(encode_document, request.app, demo.agent_id if demo else None)
    headers = {
        name: PAGE_HEADERS[name] for name in ("cross-origin-resource-policy", "x-content-type-options")
    }
    return Response(document, headers={**headers, "content-type": "application/json"})


@cache
def encode_document(app: Any, agent_id: str | None) -> bytes:
    """Encode the document, once: it takes longer than a start. `agent_id` is for the examples."""
    document = app.openapi_schema.to_schema()
    _, schemas = msgspec.json.schema_components(
        [http.Problem, OpenAIError, *STREAM_EVENTS, *WEBHOOKS.values()],
        ref_template="#/components/schemas/{name}",
    )
    document["components"]["schemas"] |= schemas
    for path, operations in document["paths"].items():
        content = _describe_refusals(path)
        for operation in operations.values():
            if _TAGS_WITH_USERS & {*operation.get("tags", ())}:
                operation["parameters"] = [*operation.get("parameters", ()), _USER_PARAMETER]
            for status, description in _REFUSALS.items():
                operation["responses"][str(status)] = {"description": description, "content": content}
    for schema in document["components"]["schemas"].values():
        schema.pop("default", None)  # a field's, which Litestar gives to the component in some processes
        for member in schema.get("properties", {}).values():
            if not isinstance(member.get("default"), str | int | float | None):
                del member["default"]  # generators of clients refuse what is no scalar
    document["webhooks"] = {event_type: {"post": _describe_webhook(event_type)} for event_type in EVENT_TYPES}
    text = re.sub("|".join(_NAMES), lambda name: _NAMES[name[0]], wire.encode(document).decode())
    return (text if agent_id is None else text.replace(AGENT, agent_id)).encode()


def _describe_refusals(path: str) -> dict[str, Any]:
    """Describe the refusals at a path by the form that they have there."""
    worded = choose_refusal_format(path)(Refusal("internal_error"), RequestIds(TRACE))
    if worded.media_type == "text/plain":
        return {"text/plain": {"schema": {"type": "string"}}}
    names: dict[RefusalFormat, str] = {format_openai_error: "OpenAIError", format_problem: "Problem"}
    name = names.get(choose_refusal_format(path))
    schema = {"type": "object"} if name is None else {"$ref": f"#/components/schemas/{name}"}
    return {worded.media_type: {"schema": schema}}


def _describe_webhook(event_type: str) -> dict[str, Any]:
    kind = WEBHOOKS[event_type.partition(".")[0]]
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {
        "summary": kind.__doc__,
        "tags": ["webhooks"],
        "security": [],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"2XX": {"description": "It was received. Whatever else comes, it is sent again."}},
    }


@cache
def _read_packaged_file(name: str) -> bytes:
    """Read a file of offapi, which is not imported: it would read all its files."""
    return Path(str(distribution("offapi").locate_file(f"offapi/{name}"))).read_bytes()
