"""The AI SDK's protocol in OpenAPI: what its types do not say."""

from typing import Any

from contracts import wire
from contracts.examples import CONVERSATION, TRACE
from contracts.ids import reply_id
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.agent_address import CONVERSATION_ID
from gateway.protocols.ai_sdk.wire import (
    CHUNKS,
    Finish,
    FinishStep,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
)

TYPES: tuple[type, ...] = CHUNKS
TAG = {"name": "ai-sdk", "description": "Agents behind the AI SDK's `useChat`."}
VERSION = (b"x-vercel-ai-ui-message-stream", b"v1")
STREAM_HEADERS = {
    **CONVERSATION_ID,
    "X-Vercel-Ai-Ui-Message-Stream": {"schema": {"const": "v1"}, "description": "The form of the stream."},
}
_APPROVAL = {
    "type": ["object", "null"],
    "properties": {
        "id": {"type": "string"},
        "approved": {"type": ["boolean", "null"]},
        "reason": {"type": ["string", "null"], "maxLength": 2000},
    },
}
BODY: dict[str, Any] = {
    "required": True,
    "description": "As `useChat` sends it. Fields that are not named here are passed over.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["messages"],
                "properties": {
                    "approvalInputs": {
                        "type": ["object", "null"],
                        "description": "By the ids of approvals: what their tools ask for, or are run with.",
                        "additionalProperties": {"type": "object"},
                    },
                    "id": {
                        "type": ["string", "null"],
                        "minLength": 1,
                        "maxLength": 255,
                        "description": "The chat's. Without it each request is a conversation of its own.",
                    },
                    "trigger": {"enum": ["submit-message", "regenerate-message", None]},
                    "messages": {
                        "type": "array",
                        "minItems": 1,
                        "description": "The chat; the last message is the user's, texts only, or the "
                        "agent's with what a person says of its tool calls.",
                        "items": {
                            "type": "object",
                            "required": ["role", "parts"],
                            "properties": {
                                "role": {"enum": ["system", "user", "assistant"]},
                                "parts": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["type"],
                                        "properties": {
                                            "type": {"type": "string"},
                                            "text": {"type": "string"},
                                            "state": {"type": ["string", "null"]},
                                            "approval": _APPROVAL,
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
            "examples": {
                "question": {
                    "summary": "A question",
                    "value": {
                        "id": "chat-7",
                        "trigger": "submit-message",
                        "messages": [
                            {
                                "id": "m1",
                                "role": "user",
                                "parts": [{"type": "text", "text": "Where is my order ORD-1001?"}],
                            }
                        ],
                    },
                }
            },
        }
    },
}
_CHUNK = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"oneOf": [ref(kind) for kind in CHUNKS]},
}
CONTENT = {"text/event-stream": {"type": "object", "required": ["data"], "properties": {"data": _CHUNK}}}
_EXAMPLE = (
    Start(message_id=reply_id(TRACE), message_metadata={"conversationId": CONVERSATION, "traceId": TRACE}),
    StartStep(),
    TextStart(id="1"),
    TextDelta(id="1", delta="It has shipped."),
    TextEnd(id="1"),
    FinishStep(),
    Finish(finish_reason="stop", message_metadata={"usage": {"totalTokens": 469}}),
)
EXAMPLE = b"".join(map(wire.encode_sse, _EXAMPLE)).decode()
