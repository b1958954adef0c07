"""The OpenAI door in OpenAPI."""

import json
from typing import Any

from contracts import wire
from contracts.examples import AGENT, TRACE
from gateway.doors.openai.body import Part
from gateway.doors.openai.refusals import words
from gateway.doors.openai.wire import (
    Choice,
    Completion,
    CompletionChunk,
    Model,
    ModelList,
    OpenAIError,
    Said,
    Tokens,
)
from gateway.openapi.answers import KEYED, RATE_LIMIT, refusals, success
from gateway.openapi.chat import ASKING, FAILING
from gateway.openapi.operations import CONVERSATION_ID, IDEMPOTENCY_KEY, operation
from gateway.openapi.schemas import ref

TYPES: tuple[type, ...] = (Completion, CompletionChunk, Model, ModelList, OpenAIError, Part)
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "The account's key, at this door only."}
}
TAG = {"name": "openai", "description": "Agents as models, for clients of OpenAI's API."}

_SECURITY: dict[str, Any] = {"security": [{"bearer": []}]}
_MODEL = Model(id="Shop assistant", created=1795253400, name="Shop assistant")
_COMPLETION = Completion(
    id=f"chatcmpl-{TRACE}",
    created=1795253400,
    model="Shop assistant",
    choices=(Choice(message=Said(role="assistant", content="It has shipped.")),),
    usage=Tokens(prompt_tokens=412, completion_tokens=57, total_tokens=469),
)
_BODY = {
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
                                        {"type": "array", "items": {"$ref": "#/components/schemas/Part"}},
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
                    "logprobs": {"enum": [False, None]},
                    "tool_choice": {"enum": ["auto", "none", None]},
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
_CONVERSATION_KEY = {
    "name": "X-Conversation-Id",
    "in": "header",
    "description": "Your own name for the conversation. Under it the history that you send finds what the "
    "agent did in it; without it each request is a conversation of its own. X-OpenWebUI-Chat-Id is read too.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "chat-7",
}
_NAMED = {"X-Conversation-Id": {"schema": CONVERSATION_ID["schema"], "description": "The conversation here."}}


def complete() -> dict[str, Any]:
    """POST /openai/v1/chat/completions."""
    done = success(
        "The reply; as chunks where `stream` is true, of which the last is `[DONE]`, or an error.",
        ref(Completion),
        {"text": json.loads(wire.encode(_COMPLETION))},
        headers={**RATE_LIMIT, **_NAMED},
    )
    event = {"type": "string", "contentMediaType": "application/json", "contentSchema": ref(CompletionChunk)}
    done["200"]["content"]["text/event-stream"] = {
        "schema": {"type": "object", "required": ["data"], "properties": {"data": event}}
    }
    answers = {**done, **_refusals(*ASKING, *FAILING)}
    return _SECURITY | operation(
        "complete",
        "openai",
        "Send a conversation, get its next message.",
        answers,
        description="See docs/openai.md for what is passed over and what is refused.",
        parameters=[_CONVERSATION_KEY, IDEMPOTENCY_KEY],
        body=_BODY,
    )


def list_models() -> dict[str, Any]:
    """GET /openai/v1/models."""
    example = {"one": json.loads(wire.encode(ModelList(data=(_MODEL,))))}
    answers = {
        **success("The enabled agents of the account.", ref(ModelList), example),
        **_refusals(*KEYED, "rate_limited"),
    }
    return _SECURITY | operation("listModels", "openai", "List the account's agents.", answers)


def get_model() -> dict[str, Any]:
    """GET /openai/v1/models/{model}."""
    answers = {
        **success("The agent.", ref(Model), {"one": json.loads(wire.encode(_MODEL))}),
        **_refusals(*KEYED, "rate_limited", "agent_not_found"),
    }
    parameter = {
        "name": "model",
        "in": "path",
        "required": True,
        "description": "The agent's id, or a name that it alone has.",
        "schema": {"type": "string"},
        "example": AGENT,
    }
    return _SECURITY | operation("getModel", "openai", "Get one of them.", answers, parameters=[parameter])


def _refusals(*codes: str) -> dict[str, Any]:
    return refusals(*codes, words=words, schema=ref(OpenAIError))
