"""The OpenAPI document of the API, made from the types that the endpoints use; and a plain page of it."""

import html
from typing import Any

import msgspec

from contracts import errors, http
from conversations.projections.conversations import ConversationRow
from gateway.body import MAX_MESSAGE_BYTES
from gateway.problems import MEDIA_TYPE
from gateway.reads import DEFAULT_LIMIT, MAX_LIMIT, MessageRow

_FORM1 = (http.MetaEvent, http.SourcesEvent, http.DeltaEvent, http.DoneEvent, http.ErrorEvent)
_FORM2 = (http.StartEvent, http.DeltaEvent, http.ToolCallEvent, http.MessageDoneEvent, http.ErrorEvent)
_TYPES = (http.ChatBody, http.ChatReply, http.Problem, ConversationRow, MessageRow, *_FORM1, *_FORM2)

_AGENT = {
    "name": "X-Agent-Id",
    "in": "header",
    "required": True,
    "description": "The agent to invoke: one of the account's.",
    "schema": {"type": "string", "format": "uuid"},
}
_FORM = {
    "name": "X-Stream-Form",
    "in": "header",
    "description": "The form of the stream's events; without it the deployment's own.",
    "schema": {"enum": ["1", "2"]},
}
_CONVERSATION = {
    "name": "conversation_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
}
_PAGING = [
    {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    },
    {"name": "cursor", "in": "query", "schema": {"type": "string"}, "description": "A page's next_cursor."},
]


def document() -> dict[str, Any]:
    """The document, OpenAPI 3.1."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    forms = [{"oneOf": [_ref(event) for event in form]} for form in (_FORM1, _FORM2)]
    body = {"required": True, "content": {"application/json": {"schema": _ref(http.ChatBody)}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Agent Chat Service",
            "version": "1",
            "description": f"A message has at most {MAX_MESSAGE_BYTES} bytes. Errors are problem documents "
            "(RFC 9457) whose `code` is one of: " + ", ".join(errors.ERRORS) + ".",
        },
        "security": [{"key": []}],
        "paths": {
            "/v1/chat": {
                "post": _operation(
                    "Send a message, get the reply as JSON.", _ref(http.ChatReply), [_AGENT], body
                )
            },
            "/v1/chat/stream": {
                "post": _operation(
                    "Send a message, get the reply as server-sent events, each one line `data: <JSON>`.",
                    {"anyOf": forms},
                    [_AGENT, _FORM],
                    body,
                    media_type="text/event-stream",
                )
            },
            "/v1/conversations": {
                "get": _operation(
                    "List the account's conversations, the newest first.",
                    _page(_ref(ConversationRow)),
                    _PAGING,
                )
            },
            "/v1/conversations/{conversation_id}": {
                "get": _operation("Get one conversation.", _ref(ConversationRow), [_CONVERSATION])
            },
            "/v1/conversations/{conversation_id}/messages": {
                "get": _operation(
                    "List a conversation's messages, the oldest first.",
                    _page(_ref(MessageRow)),
                    [_CONVERSATION, *_PAGING],
                )
            },
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}},
        },
    }


def page(described: dict[str, Any]) -> bytes:
    """A plain HTML page of the document, complete in itself: no scripts, nothing from elsewhere."""
    rows = [
        f"<dt><code>{method.upper()} {html.escape(path)}</code></dt>"
        f"<dd>{html.escape(operation['summary'])}</dd>"
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    codes = [
        f"<tr><td>{row.status}</td><td><code>{row.code}</code></td><td>{html.escape(row.title)}</td>"
        f"<td>{html.escape(row.advice)}</td></tr>"
        for row in errors.ERRORS.values()
    ]
    title = html.escape(described["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "td{padding:.2rem .8rem .2rem 0;vertical-align:top}</style>"
        f'<h1>{title}</h1><p>The whole description: <a href="/openapi.json">openapi.json</a>. '
        "Every request carries <code>X-Api-Key</code>.</p>"
        f"<dl>{''.join(rows)}</dl><h2>Errors</h2><table>{''.join(codes)}</table></html>"
    ).encode()


def _operation(
    summary: str,
    schema: dict[str, Any],
    parameters: list[dict[str, Any]],
    body: dict[str, Any] | None = None,
    media_type: str = "application/json",
) -> dict[str, Any]:
    trace = {"X-Trace-Id": {"schema": {"type": "string"}, "description": "The trace of this request."}}
    problem = {MEDIA_TYPE.decode(): {"schema": _ref(http.Problem)}}
    operation = {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "OK", "headers": trace, "content": {media_type: {"schema": schema}}},
            "default": {"description": "A refusal or a failure", "headers": trace, "content": problem},
        },
    }
    return operation | ({"requestBody": body} if body else {})


def _ref(kind: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _page(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["data", "next_cursor"],
        "properties": {
            "data": {"type": "array", "items": item},
            "next_cursor": {"type": ["string", "null"], "description": "Null on the last page."},
        },
    }
