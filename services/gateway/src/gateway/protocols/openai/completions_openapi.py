"""OpenAI's API in OpenAPI: what its types do not say."""

from typing import Any

from contracts.examples import AGENT
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.openai import structured
from gateway.protocols.openai.completion_messages import OpenAiPart
from gateway.protocols.openai.wire import Completion, CompletionChunk, OpenAIError

TYPES: tuple[type, ...] = (Completion, CompletionChunk, OpenAIError, OpenAiPart)
SECURITY = {"bearer": list[str]()}
SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The account's key, for other protocols.",
    }
}
TAG = {"name": "openai", "description": "Agents as models, for clients of OpenAI's API."}

BODY: dict[str, Any] = {
    "required": True,
    "description": "As OpenAI's. Fields that are not named here are passed over.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["model", "messages"],
                "properties": {
                    "model": {
                        "type": "string",
                        "description": "The agent's id, or a name that it alone has.",
                    },
                    "messages": {
                        "type": "array",
                        "minItems": 1,
                        "description": "The conversation; the last message is the user's. Texts only.",
                        "items": {
                            "type": "object",
                            "required": ["role"],
                            "properties": {
                                "role": {
                                    "enum": ["system", "developer", "user", "assistant", "tool", "function"]
                                },
                                "content": {
                                    "anyOf": [
                                        {"type": "string"},
                                        {"type": "null"},
                                        {
                                            "type": "array",
                                            "items": {"$ref": "#/components/schemas/OpenAiPart"},
                                        },
                                    ]
                                },
                            },
                        },
                    },
                    "stream": {"type": ["boolean", "null"]},
                    "stream_options": {
                        "type": ["object", "null"],
                        "properties": {"include_usage": {"type": ["boolean", "null"]}},
                    },
                    "n": {"enum": [1, None]},
                    "logprobs": {"anyOf": [{"const": False}, {"type": "null"}]},
                    "tool_choice": {"enum": ["auto", "none", None]},
                    "response_format": structured.NESTED,
                },
            },
            "examples": {
                "question": {
                    "summary": "A question",
                    "value": {
                        "model": AGENT,
                        "messages": [{"role": "user", "content": "Where is my order ORD-1001?"}],
                    },
                }
            },
        }
    },
}
CONVERSATION_KEY = {
    "name": "X-Conversation-Id",
    "in": "header",
    "description": "Your own name for the conversation. Under it the history that you send finds what the "
    "agent did in it; without it each request is a conversation of its own. X-OpenWebUI-Chat-Id is read too.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "chat-7",
}
_CHUNK = {"type": "string", "contentMediaType": "application/json", "contentSchema": ref(CompletionChunk)}
CONTENT = {
    "application/json": ref(Completion),
    "text/event-stream": {"type": "object", "required": ["data"], "properties": {"data": _CHUNK}},
}
