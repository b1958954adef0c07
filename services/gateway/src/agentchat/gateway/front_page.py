"""Show where the documentation and the APIs are: GET /."""

from typing import Any

import msgspec
from litestar import Response, get

from agentchat.gateway.http.json_request import JsonRequest
from agentchat.gateway.openapi import PAGE_HEADERS

_PAGE = b"""<!doctype html>
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
    summary="Get the addresses of the documentation, of health and of the APIs.",
)
async def get_links(request: JsonRequest) -> Response[Links]:
    """Return the addresses, as a page if `Accept` names text/html."""
    headers = {**PAGE_HEADERS, "vary": "accept"}
    if "text/html" in request.headers.get("accept", ""):
        page: Response[Any] = Response(_PAGE, media_type="text/html", headers=headers)
        return page
    return Response(Links(), headers=headers)
