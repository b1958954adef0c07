"""AG-UI in OpenAPI: what its types do not say."""

from typing import Any

from contracts import wire
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.ag_ui.ag_ui_events import ANSWER, EXAMPLE, FAILED
from gateway.protocols.ag_ui.wire import EVENTS

TYPES: tuple[type, ...] = EVENTS
TAG = {"name": "ag-ui", "description": "Agents for clients of AG-UI."}
_NAME = {"type": "string", "minLength": 1, "maxLength": 255}
_CONTENT = {
    "anyOf": [
        {"type": "string"},
        {"type": "null"},
        {"type": "object"},
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "text": {"type": "string"}},
            },
        },
    ]
}
_ROLES = ["system", "developer", "user", "assistant", "tool", "activity", "reasoning"]
_MESSAGE = {
    "type": "object",
    "required": ["role"],
    "properties": {"role": {"enum": _ROLES}, "content": _CONTENT},
}
_CONTEXT = {
    "type": "object",
    "required": ["description", "value"],
    "properties": {"description": {"type": "string"}, "value": {"type": "string"}},
}
_PAYLOAD: dict[str, Any] = ANSWER | {
    "properties": ANSWER["properties"]
    | {"input": {"type": "object", "description": "What a tool has asked for."}},
}
_RESUME = {
    "type": "object",
    "required": ["interruptId", "status"],
    "properties": {
        "interruptId": {"type": "string"},
        "status": {"enum": ["resolved", "cancelled"]},
        "payload": {"anyOf": [_PAYLOAD, {"type": "null"}]},
    },
}
BODY: dict[str, Any] = {
    "required": True,
    "description": "AG-UI's RunAgentInput. Fields that are not named here are passed over.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["threadId", "runId", "messages"],
                "properties": {
                    "threadId": {**_NAME, "description": "Your own name for the conversation."},
                    "runId": {**_NAME, "description": "As an Idempotency-Key: one run for one id."},
                    "messages": {
                        "type": "array",
                        "minItems": 1,
                        "description": "The thread; the last message is the user's. Texts only.",
                        "items": _MESSAGE,
                    },
                    "context": {"type": "array", "items": _CONTEXT},
                    "protocolVersion": {"type": ["string", "null"]},
                    "resume": {
                        "type": ["array", "null"],
                        "description": "Answers to all that the thread waits for; then no new message.",
                        "items": _RESUME,
                    },
                },
            },
            "examples": {
                "question": {
                    "summary": "A question",
                    "value": {
                        "threadId": "thread-7",
                        "runId": "run-1",
                        "messages": [{"id": "m1", "role": "user", "content": "Where is order ORD-1001?"}],
                        "tools": [],
                        "context": [],
                        "state": {},
                        "forwardedProps": {},
                    },
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
CONTENT = {"text/event-stream": {"type": "object", "required": ["data"], "properties": {"data": _EVENT}}}
EXAMPLES = {
    "text": b"".join(map(wire.encode_sse, EXAMPLE)).decode(),
    "failed": b"".join(map(wire.encode_sse, FAILED)).decode(),
}
