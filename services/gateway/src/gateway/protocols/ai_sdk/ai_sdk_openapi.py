"""The AI SDK's protocol in OpenAPI: what its types do not say."""

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
