"""The complete document."""

import json
from typing import Any

from contracts import errors
from contracts.examples import AGENT
from gateway.admin.handlers import router
from gateway.chat.chat_body import MAX_MESSAGE_BYTES
from gateway.openapi.documented_refusals import elsewhere
from gateway.openapi.generated import generate
from gateway.openapi.openapi_schemas import TYPES, components, referred
from gateway.protocols import wording_at
from gateway.routes import ROUTES
from gateway.webhooks import routes as webhooks

_ABOUT = f"""\
Send a message to an agent, get its reply as one JSON document or as a stream of events, and read
conversations back.

A message has at most {MAX_MESSAGE_BYTES} bytes of UTF-8. Every answer carries X-Trace-Id. Every refusal is a
problem document (RFC 9457), whose `code` is the same as that of a stream's `error` event.

An address that does not exist is answered with 404 `not_found`, a method that an address does not have with
405 `method_not_allowed` and Allow. No CORS header is ever sent, since a key does not belong in a browser."""

_TAGS = {
    "chat": "Ask an agent, and cancel what was asked.",
    "conversations": "Read conversations back, and delete them.",
    "approvals": "Tool calls that a person has to allow, and what is decided.",
    "webhooks": "Where an account receives what happens (Standard Webhooks 1.0.0).",
    "service": "What needs no key.",
    "openai": "Agents as models, for clients of OpenAI's API.",
    "ai-sdk": "Agents for the AI SDK's `useChat`.",
    "ag-ui": "Agents for clients of AG-UI.",
}
_ADMIN_TAG = {"admin": "For operators: served where AGENTCHAT_ADMIN_TOKEN is set, to who sends that token."}
_SCHEMES = {
    "key": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "The account's key, `sk-ac-` and 43 characters. No other scheme counts.",
    },
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The account's key, for other protocols.",
    },
}
_ADMIN_SCHEME = {
    "admin": {"type": "http", "scheme": "bearer", "description": "The token in AGENTCHAT_ADMIN_TOKEN."}
}


def document(admin: bool = False, agent_id: str | None = None) -> dict[str, Any]:
    """The document, OpenAPI 3.1; with the addresses of the admin API where that is on.

    `agent_id` is the agent of the examples, where one is known that exists.
    """
    paths, generated = generate([*ROUTES, router()] if admin else ROUTES)
    tags = {**_TAGS, **(_ADMIN_TAG if admin else {})}
    types = dict.fromkeys((*TYPES, *generated))
    complete = {
        "openapi": "3.1.0",
        "info": {"title": "Agent Chat Service", "version": "1", "description": _ABOUT},
        "tags": [{"name": name, "description": description} for name, description in tags.items()],
        "security": [{"key": []}],
        "paths": referred(paths, types),
        "webhooks": referred(webhooks.webhooks(), types),
        "components": {
            "responses": {
                "NotFound": referred(elsewhere("not_found", wording_at("/")), types),
                "MethodNotAllowed": referred(elsewhere("method_not_allowed", wording_at("/")), types),
            },
            "securitySchemes": {**_SCHEMES, **(_ADMIN_SCHEME if admin else {})},
            "schemas": components(types),
        },
        "x-error-codes": {
            row.code: {"status": row.status, "title": row.title, "advice": row.advice}
            for row in errors.ERRORS.values()
        },
    }
    return complete if agent_id is None else _with_agent(complete, agent_id)


def _with_agent(described: Any, agent_id: str) -> Any:
    """The document with this agent in its examples."""
    return json.loads(json.dumps(described).replace(AGENT, agent_id))
