"""The Responses API in OpenAPI: what its types do not say."""

from typing import Any

from contracts.examples import AGENT
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.openai import structured
from gateway.protocols.openai.responses.wire import EVENTS, Response

TYPES: tuple[type, ...] = (Response, *EVENTS)
_ITEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "role": {"type": "string"},
        "approval_request_id": {"type": ["string", "null"]},
        "approve": {"type": ["boolean", "null"]},
        "reason": {"type": ["string", "null"], "maxLength": 2000},
        "content": {
            "anyOf": [
                {"type": "string"},
                {"type": "null"},
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "text": {"type": ["string", "null"]}},
                    },
                },
            ]
        },
    },
}
_NAMED = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
BODY: dict[str, Any] = {
    "required": True,
    "description": "As OpenAI's. Fields that are not named here are passed over.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["model", "input"],
                "properties": {
                    "model": {
                        "type": "string",
                        "description": "The agent's id, or a name that it alone has.",
                    },
                    "input": {
                        "description": "The user's message, or items of which the last is that, or what a "
                        "person says of a tool call. Texts only.",
                        "anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": _ITEM}],
                    },
                    "instructions": {"type": ["string", "null"]},
                    "previous_response_id": {"type": ["string", "null"]},
                    "conversation": {"anyOf": [{"type": "string"}, {"type": "null"}, _NAMED]},
                    "store": {"type": ["boolean", "null"]},
                    "stream": {"type": ["boolean", "null"]},
                    "background": {"type": ["boolean", "null"]},
                    "tool_choice": {"enum": ["auto", "none", None]},
                    "text": {"type": ["object", "null"], "properties": {"format": structured.FLAT}},
                },
            },
            "examples": {
                "question": {
                    "summary": "A question",
                    "value": {"model": AGENT, "input": "Where is my order ORD-1001?"},
                }
            },
        }
    },
}
_EVENT = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"oneOf": [ref(kind) for kind in EVENTS]},
}
CONTENT = {
    "application/json": ref(Response),
    "text/event-stream": {
        "type": "object",
        "required": ["event", "data"],
        "properties": {"event": {"type": "string"}, "data": _EVENT},
    },
}
