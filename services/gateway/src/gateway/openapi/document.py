"""The complete document."""

import json
from typing import Any

from contracts import errors
from contracts.examples import AGENT
from gateway.admin import admin_openapi as described
from gateway.chat.chat_body import MAX_MESSAGE_BYTES
from gateway.openapi import openapi_schemas
from gateway.openapi.documented_refusals import elsewhere
from gateway.openapi.generated import generate
from gateway.protocols import wording_at
from gateway.protocols.ag_ui import run as ag_ui
from gateway.protocols.ai_sdk import ai_sdk_chat as ai_sdk
from gateway.protocols.openai import completions as openai
from gateway.protocols.openai.responses import create as responses
from gateway.routes import ROUTES
from gateway.webhooks import routes as webhooks

_ABOUT = f"""\
Send a message to an agent, get its reply as one JSON document or as a stream of events, and read
conversations back.

A message has at most {MAX_MESSAGE_BYTES} bytes of UTF-8. Every answer carries X-Trace-Id. Every refusal is a
problem document (RFC 9457), whose `code` is the same as that of a stream's `error` event.

An address that does not exist is answered with 404 `not_found`, a method that an address does not have with
405 `method_not_allowed` and Allow. No CORS header is ever sent, since a key does not belong in a browser."""

_TAGS = (
    {"name": "chat", "description": "Ask an agent, and cancel what was asked."},
    {"name": "conversations", "description": "Read conversations back, and delete them."},
    {"name": "approvals", "description": "Tool calls that a person has to allow, and what is decided."},
    {
        "name": "webhooks",
        "description": "Where an account receives what happens (Standard Webhooks 1.0.0).",
    },
    {"name": "service", "description": "What needs no key."},
)
_KEY = {
    "type": "apiKey",
    "in": "header",
    "name": "X-Api-Key",
    "description": "The account's key, `sk-ac-` and 43 characters. No other scheme counts.",
}


def document(admin: bool = False, agent_id: str | None = None) -> dict[str, Any]:
    """The document, OpenAPI 3.1; with the addresses of the admin API where that is on.

    `agent_id` is the agent of the examples, where one is known that exists.
    """
    paths, generated = generate(ROUTES)
    tags: list[Any] = [*_TAGS, openai.TAG, ai_sdk.TAG, ag_ui.TAG]
    schemes: dict[str, Any] = {"key": _KEY, **openai.SECURITY_SCHEMES}
    types = tuple(
        dict.fromkeys(
            (
                *openapi_schemas.TYPES,
                *webhooks.TYPES,
                *openai.TYPES,
                *responses.TYPES,
                *ai_sdk.TYPES,
                *ag_ui.TYPES,
                *generated,
            )
        )
    )
    if admin:
        paths |= described.paths()
        tags.append(described.TAG)
        schemes |= described.SECURITY_SCHEMES
        types = (*types, *(kind for kind in described.TYPES if kind not in types))
    complete = {
        "openapi": "3.1.0",
        "info": {"title": "Agent Chat Service", "version": "1", "description": _ABOUT},
        "tags": tags,
        "security": [{"key": []}],
        "paths": paths,
        "webhooks": webhooks.webhooks(),
        "components": {
            "schemas": openapi_schemas.components(types),
            "responses": {
                "NotFound": elsewhere("not_found", wording_at("/")),
                "MethodNotAllowed": elsewhere("method_not_allowed", wording_at("/")),
            },
            "securitySchemes": schemes,
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
