"""AG-UI in OpenAPI: what its types do not say."""

from contracts import wire
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.ag_ui.ag_ui_events import EXAMPLE, FAILED
from gateway.protocols.ag_ui.wire import EVENTS

TYPES: tuple[type, ...] = EVENTS
TAG = {"name": "ag-ui", "description": "Agents for clients of AG-UI."}
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
