"""Examples of our own API's answers, as its OpenAPI document shows them."""

from contracts import http, wire
from contracts.examples import CONVERSATION, MESSAGE, SOURCE, TOOL_CALL, TRACE

REPLIES = {
    "text": http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE),
    "with tools": http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE, tool_calls=(TOOL_CALL,)),
}

_DELTAS = (http.DeltaEvent(content="It has "), http.DeltaEvent(content="shipped."))
_ERROR = http.ErrorEvent(code="provider_timeout", message="The model provider did not answer in time")
_META = http.MetaEvent(conversation_id=CONVERSATION, trace_id=TRACE)
_DONE = http.DoneEvent(conversation_id=CONVERSATION, trace_id=TRACE)
_START = http.StartEvent(conversation_id=CONVERSATION)
_EVENTS: dict[str, tuple[http.StreamEvent, ...]] = {
    "form 1": (_META, *_DELTAS, _DONE),
    "form 1, with retrieval": (_META, http.SourcesEvent(sources=(SOURCE,)), *_DELTAS, _DONE),
    "form 1, failed": (_META, _DELTAS[0], _ERROR),
    "form 2": (
        _START,
        http.ToolCallEvent(name=TOOL_CALL.name, input=TOOL_CALL.input),
        *_DELTAS,
        http.MessageDoneEvent(message=MESSAGE, tool_calls=(TOOL_CALL,)),
    ),
    "form 2, failed": (_START, _ERROR),
}

STREAMS = {name: b"".join(map(wire.encode_sse, events)).decode() for name, events in _EVENTS.items()}
"""As they are on the wire. Form 1 tells of sources, form 2 of tools: see `contracts.sse`."""
