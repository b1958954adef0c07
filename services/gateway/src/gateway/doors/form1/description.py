"""The events of form 1, in words and by example."""

from contracts import http
from contracts.examples import CONVERSATION, SOURCE, TRACE
from gateway.openapi.chat import DELTAS, ERROR

ABOUT = "Form 1 has the events meta, sources (where retrieval ran), delta, done, error."
_META = http.MetaEvent(conversation_id=CONVERSATION, trace_id=TRACE)
_DONE = http.DoneEvent(conversation_id=CONVERSATION, trace_id=TRACE)
EXAMPLES: dict[str, tuple[http.StreamEvent, ...]] = {
    "form 1": (_META, *DELTAS, _DONE),
    "form 1, with retrieval": (_META, http.SourcesEvent(sources=(SOURCE,)), *DELTAS, _DONE),
    "form 1, failed": (_META, DELTAS[0], ERROR),
}
