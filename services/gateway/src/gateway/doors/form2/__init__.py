"""Form 2 of POST /v1/chat/stream, which tells of tools; on some plans only. Its events: `contracts.sse`."""

from contracts import http
from contracts.examples import CONVERSATION, MESSAGE, TOOL_CALL
from gateway.doors.form1 import DELTAS, ERROR

ABOUT = "Form 2 has start, delta, tool_call, done (with the saved message and the calls' outputs), error."
_START = http.StartEvent(conversation_id=CONVERSATION)
EXAMPLES: dict[str, tuple[http.StreamEvent, ...]] = {
    "form 2": (
        _START,
        http.ToolCallEvent(name=TOOL_CALL.name, input=TOOL_CALL.input),
        *DELTAS,
        http.MessageDoneEvent(message=MESSAGE, tool_calls=(TOOL_CALL,)),
    ),
    "form 2, failed": (_START, ERROR),
}
