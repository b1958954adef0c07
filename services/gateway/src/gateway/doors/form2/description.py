"""The events of form 2, in words and by example."""

from contracts import http
from contracts.examples import CONVERSATION
from gateway.openapi.chat import DELTAS, ERROR, MESSAGE, TOOL_CALL

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
