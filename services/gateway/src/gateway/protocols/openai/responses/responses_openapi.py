"""The Responses API in OpenAPI: what its types do not say."""

from gateway.openapi.openapi_schemas import ref
from gateway.protocols.openai.responses.wire import EVENTS, Response

TYPES: tuple[type, ...] = (Response, *EVENTS)
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
