"""The description of the API as a document and as a page to try calls out on, and the front page.

The page is Swagger UI, whose files come in the package offapi and are served from here: a browser that shows
it asks no other host for anything.
"""

import asyncio
import gzip
import re
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import msgspec
from litestar import get
from litestar.params import FromPath

from contracts import wire
from gateway.gateway_request import GatewayRequest
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from runtime.listening import is_loopback

_FILES = {
    "swagger-ui.css": ("swagger_style.css", "text/css; charset=utf-8"),
    "swagger-ui-bundle.js": ("swagger_bundle.js", "text/javascript; charset=utf-8"),
}
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
"""With these a browser runs our own files alone, fetches nothing from elsewhere, and has no other site's page
include them: a script of ours holds the demo's key.
"""

_PAGE = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Agent Chat Service</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="swagger-ui"></div><noscript>See <a href="/openapi.json">openapi.json</a>.</noscript>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>
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
_BYTES = {"type": "string"}
_GZIP = re.compile(r"(?:x-)?gzip(?:\s*;\s*q=(?!0(?:\.0*)?$)[0-9.]+)?")


@get(
    "/openapi.json",
    operation_id="get_openapi",
    summary="This document.",
    response_description="OpenAPI 3.1.",
    tags=["service"],
)
@described(content={"application/json": {"type": "object"}})
async def get_openapi(request: GatewayRequest) -> JsonAnswer[Any]:
    headers = {
        name: PAGE_HEADERS[name] for name in ("cross-origin-resource-policy", "x-content-type-options")
    }
    document = await asyncio.to_thread(request.app.state.document)
    return await _compressed(request, document, "application/json", headers)


@get(
    "/docs",
    operation_id="get_docs",
    media_type="text/html; charset=utf-8",
    summary="This document as a page on which one can try calls out.",
    response_description="A page.",
    tags=["service"],
)
@described(content={"text/html": _BYTES})
async def get_docs() -> JsonAnswer[Any]:
    return JsonAnswer(_PAGE, headers=PAGE_HEADERS)


@get("/docs/{name:str}", include_in_schema=False)
async def get_docs_file(request: GatewayRequest, name: FromPath[str]) -> JsonAnswer[Any]:
    if name == "start.js":
        demo = request.services.demo if _asked_by_loopback(request) else None
        script = _START % wire.encode(demo and demo.key).decode()
        headers = {**PAGE_HEADERS, "cache-control": "no-store"}
        return JsonAnswer(script.encode(), media_type="text/javascript; charset=utf-8", headers=headers)
    if name not in _FILES:
        raise Refusal("not_found")
    file, media_type = _FILES[name]
    headers = {**PAGE_HEADERS, "cache-control": "max-age=3600"}
    return await _compressed(request, _packaged(file), media_type, headers)


def _asked_by_loopback(request: GatewayRequest) -> bool:
    hosts = request.exchange.header(b"host")
    return len(hosts) == 1 and is_loopback(hosts[0].decode("latin-1"))


async def _compressed(
    request: GatewayRequest, data: bytes, media_type: str, headers: dict[str, str]
) -> JsonAnswer[Any]:
    """An answer with `data`, by gzip where the client takes that."""
    headers = {**headers, "vary": "accept-encoding"}
    if _takes_gzip(request.headers.get("accept-encoding", "")):
        data = await asyncio.to_thread(_gzipped, data)
        headers["content-encoding"] = "gzip"
    return JsonAnswer(data, media_type=media_type, headers=headers)


def _takes_gzip(accept_encoding: str) -> bool:
    """RFC 9110 section 12.5.3, of a header that names gzip itself."""
    return any(_GZIP.fullmatch(coding.strip()) for coding in accept_encoding.lower().split(","))


@cache
def _gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@cache
def _packaged(name: str) -> bytes:
    """A file of offapi, which is not imported: it would read all its files."""
    return Path(str(distribution("offapi").locate_file(f"offapi/{name}"))).read_bytes()


_FRONT_PAGE = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Agent Chat Service</title>
<link rel="icon" href="data:,"></head>
<body><h1>Agent Chat Service</h1>
<ul><li><a href="/docs">/docs</a>: the API, to read and to try out</li>
<li><a href="/openapi.json">/openapi.json</a>: its description for programs</li>
<li><a href="/healthz">/healthz</a>: whether this process lives</li>
<li><a href="/readyz">/readyz</a>: whether all that it needs answers</li></ul>
<p>Messages are sent to <code>/v1/chat</code>; base URLs for clients of other protocols are
<code>/openai/v1</code>, <code>/ai-sdk/v1</code> and <code>/ag-ui/v1</code>.</p></body></html>
"""


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of this server."""

    name: str = "Agent Chat Service"
    docs: str = "/docs"
    openapi: str = "/openapi.json"
    health: str = "/healthz"
    readiness: str = "/readyz"
    chat: str = "/v1/chat"
    conversations: str = "/v1/conversations"
    openai: str = "/openai/v1"
    ai_sdk: str = "/ai-sdk/v1"
    ag_ui: str = "/ag-ui/v1"


@get(
    "/",
    operation_id="get_links",
    summary="Where to go: the addresses of the documentation, of health and of the APIs.",
    response_description="The links; as a page where `Accept` names text/html.",
    tags=["service"],
)
@described(content={"application/json": Links, "text/html": {"type": "string"}}, examples={"links": Links()})
async def get_links(request: GatewayRequest) -> JsonAnswer[Links]:
    headers = {**PAGE_HEADERS, "vary": "accept"}
    if "text/html" in request.headers.get("accept", ""):
        return JsonAnswer[Any](_FRONT_PAGE, media_type="text/html; charset=utf-8", headers=headers)
    return JsonAnswer(Links(), headers=headers)


HANDLERS = (get_openapi, get_docs, get_docs_file, get_links)
