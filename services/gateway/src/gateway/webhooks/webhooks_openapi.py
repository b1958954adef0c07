"""What the OpenAPI document says of webhooks next to their operations: what endpoints are sent."""

from typing import Any

from contracts.webhooks import (
    EVENT_TYPES,
    WEBHOOKS,
    EventType,
)
from gateway.openapi.openapi_schemas import ref

TYPES: tuple[type, ...] = (*WEBHOOKS.values(),)

_HEADERS = {
    "webhook-id": "The id of the message: the same at each attempt, and each time that it is sent again.",
    "webhook-timestamp": "When this attempt was made, in seconds since 1970.",
    "webhook-signature": "`v1,` and a signature in base64; two, with a space between, for a day after the "
    "secret was rotated.",
}


def webhooks() -> dict[str, Any]:
    """What is sent, by the type of the event (OpenAPI 3.1, `webhooks`)."""
    return {type_: {"post": _sent(type_)} for type_ in EVENT_TYPES}


def _sent(type_: EventType) -> dict[str, Any]:
    kind = WEBHOOKS[type_.partition(".")[0]]
    headers = [
        {"name": name, "in": "header", "required": True, "description": text, "schema": {"type": "string"}}
        for name, text in _HEADERS.items()
    ]
    return {
        "summary": kind.__doc__,
        "tags": ["webhooks"],
        "security": [],
        "parameters": headers,
        "requestBody": {"required": True, "content": {"application/json": {"schema": ref(kind)}}},
        "responses": {"2XX": {"description": "It was received. Whatever else comes, it is sent again."}},
    }
