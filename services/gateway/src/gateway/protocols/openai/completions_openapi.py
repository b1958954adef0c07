"""OpenAI's API in OpenAPI: what its types do not say."""

from gateway.openapi.openapi_schemas import ref
from gateway.protocols.openai.wire import Completion, CompletionChunk, OpenAIError

TYPES: tuple[type, ...] = (Completion, CompletionChunk, OpenAIError)
SECURITY = {"bearer": list[str]()}
SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The account's key, for other protocols.",
    }
}
TAG = {"name": "openai", "description": "Agents as models, for clients of OpenAI's API."}

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
